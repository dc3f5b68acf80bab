"""The weights of a model on disk, whatever its format."""

from dataclasses import dataclass
from pathlib import Path

import torch

from engine.checkpoint.assemble import TensorFile, assemble
from engine.checkpoint.gguf_weights import GgufWeights
from engine.checkpoint.safetensors_folder import SafetensorsFolder
from engine.parameters import CutLayer, Parameters
from sim.models import ModelSpec


@dataclass(frozen=True, slots=True)
class FileWeights:
    """Implements `WeightSource` with a safetensors folder or a GGUF file."""

    path: Path

    def load(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device, cut: CutLayer) -> Parameters:
        """See `WeightSource`."""
        file: TensorFile = SafetensorsFolder(self.path) if self.path.is_dir() else GgufWeights(self.path)
        return assemble(file, spec, dtype, device, cut)
