"""Models in files: weights, tokenizer and chat template, from safetensors folders and GGUF files."""

from engine.checkpoint.files import FileWeights
from engine.checkpoint.text import TextSide, text_side

__all__ = ["FileWeights", "TextSide", "text_side"]
