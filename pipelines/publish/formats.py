"""The formats by name."""

from __future__ import annotations

from pipelines.publish import sugarcrepe
from pipelines.publish.publication import Format

FORMATS: dict[str, Format] = {
    "sugarcrepe": Format(
        sugarcrepe.write,
        "SugarCrepe: a JSON file an operator",
        "`json.load(open('noun.json'))['0']` has `filename`, `caption` and `negative_caption`; a model passes where the "
        "image is nearer to the caption than to the negative.",
        per_caption=1,
    ),
}


def format_named(name: str) -> Format:
    """The format of a name. Raises ValueError listing the valid ones."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, was: {name}")
    return FORMATS[name]
