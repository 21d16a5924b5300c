"""What an evaluation measures of UniVSE alone."""

from __future__ import annotations

from typing import Any

import torch

from negcap.pipelines.models.embed import IMAGES
from negcap.pipelines.models.trainer.protocols import Attacks, Split
from negcap.pipelines.models.trainer.unified import Said
from negcap.pipelines.models.univse.alpha import alpha_curve
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.univse.parsing import recover


def tasks(model: UniVSE, split: Split, attacks: Attacks, said: Said) -> dict[str, Any]:
    """The curve of α, and semantic parsing with visual cues."""
    with torch.inference_mode():
        regions = torch.cat([model.image.with_regions(some)[1] for some in said.features.split(IMAGES)])
    graphs, image = said.components.to_pylist(), split.owner.tolist()
    return {
        "alpha": alpha_curve(model, split, attacks.crowds),
        "parsing": recover(model, said.vocabulary, graphs, image, split.images, regions),
    }
