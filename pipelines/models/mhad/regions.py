"""The encoder of an image's regions by attention heads."""

from __future__ import annotations

from torch import Generator, Tensor, nn

from ..attention import Attended, AttentionHeads
from ..encoders import TRANSFORMS
from ..similarities import unit


class RegionEncoder(nn.Module):
    """Maps the regions of images (B, R, D) to unit vectors (B, K · joint): transform, linear layer, K attention heads.

    size: D. joint: the size of a head's vector. width, heads: see AttentionHeads. transform: a key of TRANSFORMS. tanh:
    whether it follows the linear layer. Regions whose features are all 0 are padding. Features (B, D) without regions
    count as one region.
    """

    def __init__(
        self, size: int, joint: int, width: int, heads: int, transform: str, tanh: bool, generator: Generator
    ) -> None:
        super().__init__()
        self.transform = transform
        self.tanh = tanh
        self.linear = nn.Linear(size, joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)
        self.heads = AttentionHeads(joint, width, heads, generator)

    def attend(self, features: Tensor) -> Attended:
        """The heads over the regions of features (B, R, D) of any float type; an image of zeros attends to all."""
        regions = (features if features.dim() == 3 else features[:, None]).to(self.linear.weight.dtype)
        present = (regions != 0).any(-1)
        states = self.linear(TRANSFORMS[self.transform](regions))
        return self.heads(states.tanh() if self.tanh else states, present | ~present.any(1, keepdim=True))

    def forward(self, features: Tensor) -> Tensor:
        """Unit vectors (B, K · joint), float32, of features (B, R, D) or (B, D)."""
        return unit(self.attend(features).vectors.flatten(1))
