"""The embedding models by name, and the verbs that train, evaluate, compare and picture them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch

from ...readers.files import first_line
from .. import checkpoint
from ..batches import Objective
from ..config import CONFIGS, TrainConfig
from ..encoders import EmbeddingModel
from ..registry import MODELS
from ..vocabulary import WordVocabulary

# settings that a trained model no longer needs: paths on the machine that trained it
FILES = ("vectors", "other_vectors", "judges")


def _objective(name: str) -> Objective:
    """The Objective of a kind of model, which the registry names as `module:NAME`."""
    module, _, attribute = MODELS[name].objective.partition(":")
    return getattr(import_module(f"..{module}", __package__), attribute)


OBJECTIVES: Mapping[str, Objective] = {name: _objective(name) for name in MODELS}


class TrainedModel(NamedTuple):
    """A trained model, its vocabularies by language, and the config of its training, whose `run` is empty."""

    model: EmbeddingModel
    vocabularies: dict[str, WordVocabulary]
    config: TrainConfig


def load_model(folder: Path, device: torch.device, **changes: object) -> TrainedModel:
    """Load the best model of a folder, in whose config `changes` are set, for evaluation on a device.

    Raises FileNotFoundError without a model, ValueError for damaged files, or a change not for it.
    """
    identity = checkpoint.read_identity(folder, "train")
    best = checkpoint.read_weights(folder, checkpoint.BEST)  # before anything is made as large as config.json says
    try:
        settings = {name: value for name, value in identity.config.items() if name not in FILES}
        config = CONFIGS[settings["model"]](**settings, run=Path(), output=folder)
        features = identity.features
    except (KeyError, TypeError, ValueError) as error:
        why = first_line(error)
        raise ValueError(f"{folder / checkpoint.CONFIG} must be what negcap train wrote, lacks: {why}") from None
    if foreign := [name for name in changes if name not in vars(config)]:
        raise ValueError(f"{', '.join(foreign)} can only be set for a univse model, {folder} is: {config.model}")
    config = config.changed(**changes)
    vocabularies = checkpoint.read_vocabularies(folder, config.languages)
    # no word vectors are read, as the weights are loaded below
    size, *further_sizes = (len(vocabulary) for vocabulary in vocabularies.values())
    further_languages = [(further, None) for further in further_sizes]
    model = OBJECTIVES[config.model].build(config, features, size, None, *further_languages)
    best.load_into({"model": model})
    return TrainedModel(model.to(device).eval(), vocabularies, config)
