"""One thread for torch: the matrices here are small, threads waiting for a core are slow."""

import torch

torch.set_num_threads(1)
