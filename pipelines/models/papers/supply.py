"""How many negatives the captions of a run have for VSE-C's attacks, beside the paper's."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from ...engine.tables import has_table, read_table
from ..evaluation.attacks import FAMILIES
from ..markdown import markdown_table
from .plan import Settings

MOST = 20  # of a family that attack a caption
LEAST = (1, 5, 10, MOST)


def supply_table(settings: Settings) -> str:
    """The mean number of negatives of a caption by family, and how many images have captions with enough of each."""
    head = [f"negatives per caption, at most {MOST} counted", *FAMILIES]
    head.append(f"images all of whose captions have {' · '.join(map(str, LEAST))} of each")
    rows = [["reported", *[str(MOST)] * len(FAMILIES), "1,000 were chosen"]]
    if has_table(settings.run, "negatives"):
        rows.append(["measured", *_counted(settings)])
    return markdown_table(head, rows)


def _counted(settings: Settings) -> list[str]:
    image: dict[str, str] = {}
    for part in read_table(settings.run, "captions", ["caption_id", "image_id", "split"]):
        part = part.filter(pc.equal(part["split"], settings.split))
        image.update(zip(part["caption_id"].to_pylist(), part["image_id"].to_pylist(), strict=True))
    captions = pa.array(list(image))
    counts = {family: dict.fromkeys(image, 0) for family in FAMILIES}
    for part in read_table(settings.run, "negatives", ["caption_id", "operator"]):
        part = part.filter(pc.is_in(part["caption_id"], captions))
        for family, operators in FAMILIES.items():
            rows = pc.is_in(part["operator"], pa.array(operators))
            for caption, number in Counter(part["caption_id"].filter(rows).to_pylist()).items():
                counts[family][caption] += number
    means = [sum(min(MOST, number) for number in found.values()) / len(image) for found in counts.values()]
    fewest: dict[str, int] = {}
    for caption, its in image.items():
        fewest[its] = min(fewest.get(its, MOST), *(found[caption] for found in counts.values()))
    enough = [sum(number >= least for number in fewest.values()) for least in LEAST]
    return [*(f"{mean:.1f}" for mean in means), f"{' · '.join(map(str, enough))} of {len(fewest):,}"]
