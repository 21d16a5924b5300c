"""The embedding models by name: how each is trained, the metrics of only that model, and how one is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from .. import checkpoint
from ..config import RESUMABLE, TrainConfig
from ..contrastive import CONTRASTIVE_OBJECTIVES
from ..evaluation.attacks import Attacks
from ..evaluation.retrieval import EmbeddedSplit, SplitComponents
from ..losses import ORDER, VSE, VSE_C, VSE_PP
from ..mhad.model import MHA_D
from ..objective import Objective
from ..univse.objective import UNIVSE, univse_metrics
from ..vocabulary import WordVocabulary

Metrics = Callable[[Any, EmbeddedSplit, Attacks, SplitComponents], dict[str, Any]]
OBJECTIVES: Mapping[str, Objective] = {
    **{"vse": VSE, "vse++": VSE_PP, "vse-c": VSE_C, "univse": UNIVSE, "order": ORDER},
    "mha-d": MHA_D,
    **CONTRASTIVE_OBJECTIVES,
}
OWN_METRICS: Mapping[str, Metrics] = {"univse": univse_metrics}


def load_model(folder: Path, device: torch.device, **changes: Any) -> tuple[Any, WordVocabulary, TrainConfig]:
    """The best model of a folder, the vocabulary of its first language, and its config (with an empty `run`).

    changes: values for fields of the config. Raises FileNotFoundError for a folder without a model, ValueError for
    damaged files.
    """
    identity, vocabulary = checkpoint.read_identity(folder, "train")
    try:
        config = checkpoint.restore_config(
            TrainConfig, folder, identity, (*RESUMABLE, "vectors", "other_vectors", "judges"), **changes
        )
        others = checkpoint.read_vocabularies(folder, config.languages[1:])
        more = [[(len(words), None) for words in others.values()]] if others else []
        model = OBJECTIVES[config.model].build(config, int(identity["features"]), len(vocabulary), None, *more)
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        why = checkpoint.first_line(error)
        raise ValueError(f"{folder / checkpoint.CONFIG} must be what negcap train wrote, lacks: {why}") from None
    checkpoint.restore(folder, checkpoint.BEST, {"model": model})
    return model.to(device).eval(), vocabulary, config
