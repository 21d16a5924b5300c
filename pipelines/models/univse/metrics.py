"""The metrics that an evaluation computes only for UniVSE."""

from __future__ import annotations

from typing import Any

import torch

from ..evaluation.attacks import Attacks
from ..evaluation.embed import images_at_once
from ..evaluation.split import EmbeddedSplit
from ..evaluation.unified_retrieval import SplitComponents
from .alpha import alpha_curve
from .model import UniVSE
from .parsing import EmbeddedImages, parsing_accuracy


def univse_metrics(
    model: UniVSE, split: EmbeddedSplit, attacks: Attacks, components: SplitComponents
) -> dict[str, Any]:
    """Two groups of metrics: `alpha`, see `alpha_curve`, and `parsing`, see `parsing_accuracy`."""
    with torch.inference_mode():
        parts = components.features.split(images_at_once(components.features))
        regions = torch.cat([model.image.with_regions(part.to(split.images.device))[1] for part in parts])
    images = EmbeddedImages(split.images, regions)
    graphs = components.components.to_pylist()
    return {
        "alpha": alpha_curve(model, split, attacks.shared),
        "parsing": parsing_accuracy(model, components.vocabulary, graphs, split.owner.tolist(), images),
    }
