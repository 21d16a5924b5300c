"""What an evaluation measures of UniVSE alone."""

from __future__ import annotations

from typing import Any

import torch

from pipelines.trainer.embed import IMAGES
from pipelines.trainer.protocols import Attacks, Split
from pipelines.trainer.unified import Said
from pipelines.trainer.univse.alpha import alpha_curve
from pipelines.trainer.univse.model import UniVSE
from pipelines.trainer.univse.parsing import recover


def tasks(model: UniVSE, split: Split, attacks: Attacks, said: Said) -> dict[str, Any]:
    """The curve of α, and semantic parsing with visual cues."""
    with torch.inference_mode():
        regions = torch.cat([model.image.with_regions(some)[1] for some in said.features.split(IMAGES)])
    graphs, image = said.components.to_pylist(), split.owner.tolist()
    return {
        "alpha": alpha_curve(model, split, attacks.crowds),
        "parsing": recover(model, said.vocabulary, graphs, image, split.images, regions),
    }
