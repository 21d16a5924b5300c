"""The models by name."""

from negcap.pipelines.models.trainer.models import VSE, VSE_C, VSE_PP
from negcap.pipelines.models.trainer.objective import Objective
from negcap.pipelines.models.univse.objective import UNIVSE

OBJECTIVES: dict[str, Objective] = {"vse": VSE, "vse++": VSE_PP, "vse-c": VSE_C, "univse": UNIVSE}
