"""The PagedAttention paper's figures, by simulation, over what the paper printed (Kwon et al., SOSP 2023)."""

from app.paper.figures import FIGURES, reproduce
from app.paper.point import Point

__all__ = ["FIGURES", "Point", "reproduce"]
