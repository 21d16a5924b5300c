"""The defaults of each model, negcap's and those of its paper, and `configure`, which fills a TrainConfig with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .config import TrainConfig

RECIPES = ("house", "paper")
# Per model, the defaults that differ from those of TrainConfig.
DEFAULTS: dict[str, dict[str, Any]] = {
    "univse": {
        "epochs": 13,
        "bidirectional": False,
        "pooling": "last",
        "image_pooling": "max-k",
        "tune_vectors": False,
        "constant": 6,
        "decay": 0.5,
        "decay_every": 1,
        "least_rate": 1e-5,
    },
    # Vendrov et al. (2016), also with --recipe paper
    "order": {
        **{"transform": "l2", "dropout": 0.0, "average": 0.0, "warm_up": 0},
        **{"pooling": "last", "bidirectional": False, "similarity": "order"},
    },
    "mha-d": {"languages": ("en", "de"), "negative_families": (), "joint": 512, "epochs": 20},
}
# Per similarity, the defaults where the model has none of its own. While the hardest negative is mostly nearer than the
# true pair, VSE++'s loss falls by drawing all vectors together, down to E = 0, where the gradient is 0, too. The sum of
# hinges does not fall by that, and is trained for longer at first than with the cosine.
OF_SIMILARITY: dict[str, dict[str, Any]] = {
    "order": {"margin": 0.05, "warm_up": 3},
    "order-signed": {"warm_up": 3},
    "order-reversed": {"margin": 0.05, "warm_up": 3},
}
# The settings of the papers where they differ from the defaults: VSE++ (Faghri et al. 2018; also for VSE), VSE-C (Shi
# et al. 2018), UniVSE (Wu et al. 2019) and MHA-D (Huang et al. 2019). VSE-C and UniVSE begin with GloVe's vectors
# (`vectors`).
_PLAIN = {"transform": "l2", "dropout": 0.0, "average": 0.0, "warm_up": 0, "pooling": "last"}
_VSE_PP = {**_PLAIN, "bidirectional": False, "learning_rate": 2e-4}
_MHA_D = {**_PLAIN, "transform": "none", "learning_rate": 2e-4, "weight_decay": 1e-6}
PAPER: dict[str, dict[str, Any]] = {
    **{"vse": _VSE_PP, "vse++": _VSE_PP, "vse-c": _PLAIN},
    **{"univse": {**_PLAIN, "false_words": "any"}, "mha-d": _MHA_D},
    # CLIP's and its successors' (which fine-tune CLIP, see negcap finetune): the vector of the last word, no
    # regularisation beyond the loss, and for NegCLIP (Yuksekgonul et al. 2023) one random negative per caption
    **{"infonce": _PLAIN, "siglip": _PLAIN, "negclip": {**_PLAIN, "negatives": 1}, "ce-clip": _PLAIN},
}


def configure(run: Path, output: Path, model: str = "vse++", recipe: str = "house", **given: Any) -> TrainConfig:
    """A TrainConfig with the defaults of this model, or with recipe = "paper" the settings of its paper.

    given: other fields to set. Similarities other than the cosine have defaults of their own, too, see OF_SIMILARITY.
    Raises as TrainConfig, and ValueError for an unknown recipe.
    """
    if recipe not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, was: {recipe}")
    settings = {**DEFAULTS.get(model, {}), **(PAPER.get(model, {}) if recipe == "paper" else {})}
    if recipe == "paper" and model == "vse-c" and given.get("vectors"):
        settings["grounded_dim"] = 100
    settings.update(given)
    of_similarity = OF_SIMILARITY.get(settings.get("similarity", TrainConfig.similarity), {})
    return TrainConfig(run=run, output=output, model=model, **{**of_similarity, **settings})
