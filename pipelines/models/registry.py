"""The embedding models by name. Imports nothing, so that the command line can list them at once."""

from __future__ import annotations

from typing import NamedTuple


class Model(NamedTuple):
    """A kind of model. config: the name of the class of its settings, in `config`. objective: the module, in this
    folder, and the name of its Objective. needs_negatives: whether it cannot train without negatives.
    """

    config: str
    objective: str
    needs_negatives: bool = False


MODELS = {
    "vse": Model("VseConfig", "dual:VSE"),
    "vse++": Model("VseConfig", "dual:VSE"),
    "vse-c": Model("VseConfig", "dual:VSE_C", needs_negatives=True),
    "univse": Model("UniVseConfig", "univse.objective:UNIVSE"),
    "order": Model("VseConfig", "dual:VSE"),
    "mha-d": Model("MhadConfig", "mhad:MHA_D"),
    "infonce": Model("ContrastiveConfig", "dual:INFO_NCE"),
    "siglip": Model("ContrastiveConfig", "dual:INFO_NCE"),
    "negclip": Model("ContrastiveConfig", "dual:NEGCLIP", needs_negatives=True),
    "ce-clip": Model("ContrastiveConfig", "dual:NEGCLIP", needs_negatives=True),
}
WITH_NEGATIVES = tuple(name for name, model in MODELS.items() if model.needs_negatives)
RECIPES = ("house", "paper")
