"""The models by name."""

from pipelines.trainer.models import VSE, VSE_C, VSE_PP
from pipelines.trainer.objective import Objective
from pipelines.trainer.univse.objective import UNIVSE

OBJECTIVES: dict[str, Objective] = {"vse": VSE, "vse++": VSE_PP, "vse-c": VSE_C, "univse": UNIVSE}
