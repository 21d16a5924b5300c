"""features + captions -> generated captions of the images, and those that were refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from negcap.pipelines.engine.bounds import at_least
from negcap.pipelines.engine.shards import WholeTable, sha256_file
from negcap.pipelines.engine.stage import Stage, StageResult
from negcap.schemas.captions import CAPTION_REASONS, GENERATED, LANGUAGE, REFUSED_CAPTIONS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from negcap.pipelines.models.captioner.model import Captioner

TABLE, REFUSED, ORIGIN = "generated", "refused_captions", "generated"
_TABLE = re.compile(rf"{TABLE}(_[a-z0-9]+)?")


@dataclass(frozen=True)
class CaptionConfig:
    """What is written. weights: of a captioner's generator, in its folder.

    n: captions an image; seed: of the noise; decoding: sample, greedy, or beam of `width`; each caption has its own
    noise. tries: how often what is refused is drawn again, at most. splits: of the images; empty: those that the
    captioner was trained on. table: to write, `generated`, or `generated_<name>` to keep several. Raises ValueError for
    a value that breaks its rule.
    """

    weights: Path
    n: int = 3
    seed: int = 0
    decoding: str = "sample"
    width: int = 3
    tries: int = 4
    splits: tuple[str, ...] = ()
    table: str = TABLE

    def __post_init__(self) -> None:
        at_least(self, 1, ("n", "width", "tries"))
        if self.decoding not in ("sample", "greedy", "beam"):
            raise ValueError(f"decoding must be sample, greedy or beam, was: {self.decoding}")
        if not _TABLE.fullmatch(self.table):
            raise ValueError(f"table must be {TABLE}, or {TABLE}_ and a name of a-z and 0-9, was: {self.table}")


class Images(NamedTuple):
    """What a run's captions say of its images: image and split by image_id; keys of what they say."""

    rows: Mapping[str, tuple[str, str]]
    own: pa.Array


@lru_cache(maxsize=2)
def load(weights: Path, sha256: str) -> Captioner:
    """A captioner, once a process and content."""
    import torch

    from negcap.pipelines.models.captioner.model import load

    return load(weights, torch.device("cpu"))


@lru_cache(maxsize=2)
def images_of(captions: WholeTable) -> Images:
    """The images of a run, once a process and content."""
    from negcap.pipelines.models.captioner.generate import owned

    rows = captions.read(["image_id", "image", "split", "text"]).combine_chunks()
    columns = [rows[name].to_pylist() for name in ("image_id", "image", "split")]
    own = owned(rows["image_id"].combine_chunks(), rows["text"].combine_chunks())
    return Images({name: (image, split) for name, image, split in zip(*columns, strict=True)}, own)


def caption(features: pa.Table, config: CaptionConfig, captions: WholeTable) -> StageResult:
    """The captions written of the images of a shard. Counters: captions, images, short, `refused.<reason>`.

    short: images with fewer than n captions, too many being refused. Raises ValueError for features of another net.
    """
    import numpy as np
    import pyarrow as pa
    import torch

    from negcap.pipelines.models.captioner.generate import draw
    from negcap.pipelines.models.captioner.material import transformed
    from negcap.pipelines.models.data import feature_values

    captioner = load(config.weights, sha256_file(config.weights))
    known = images_of(captions)
    splits = config.splits or captioner.config.train_splits
    names = features["image_id"].to_pylist()
    there = [n for n, name in enumerate(names) if name in known.rows and known.rows[name][1] in splits]
    if not there:
        return _result(GENERATED.empty_table(), REFUSED_CAPTIONS.empty_table(), Counter(), config.table)
    values, backbone = feature_values(features, "features")
    if values.shape[-1] != captioner.features or backbone != captioner.backbone:
        raise ValueError(
            f"features must be {captioner.features} numbers of {captioner.backbone!r} as the captioner's, "
            f"are {values.shape[-1]} of {backbone!r}"
        )
    images = [names[n] for n in there]
    drawn = draw(
        captioner,
        transformed(values[torch.tensor(there)], captioner.config.transform),
        images,
        known.own,
        n=config.n,
        seed=config.seed,
        decoding=config.decoding,
        width=config.width,
        tries=config.tries,
    )
    kept = drawn.reason == 0
    counts = Counter({"images": len(images)})
    counts["short"] = int((np.bincount(drawn.image[kept], minlength=len(images)) < config.n).sum())
    for reason, times in zip(*np.unique(drawn.reason[~kept], return_counts=True), strict=True):
        counts[f"refused.{CAPTION_REASONS[reason - 1]}"] = int(times)
    ids = pa.array(images, pa.string())
    refused = pa.table(
        [
            ids.take(pa.array(drawn.image[~kept])),
            pa.array(drawn.number[~kept].astype(np.int32)),
            pa.array(CAPTION_REASONS).take(pa.array(drawn.reason[~kept] - 1)),
            drawn.text.filter(pa.array(~kept)),
        ],
        schema=REFUSED_CAPTIONS,
    )
    return _result(
        _captions(drawn.image[kept], ids, drawn.text.filter(pa.array(kept)), known), refused, counts, config.table
    )


def _result(captions: pa.Table, refused: pa.Table, counts: Counter[str], table: str) -> StageResult:
    counts["captions"] = captions.num_rows
    return StageResult({refused_table(table): refused, table: captions}, counts)


def _captions(image: np.ndarray, ids: pa.Array, text: pa.Array, known: Images) -> pa.Table:
    """Rows of captions from the image of each and its text, in order."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    first = np.flatnonzero(np.diff(image, prepend=-1))
    number = np.arange(len(image)) - np.repeat(first, np.diff([*first, len(image)]))
    said = [
        pa.array(values, pa.string()) for values in zip(*(known.rows[name] for name in ids.to_pylist()), strict=True)
    ]
    at = pa.array(image)
    image_ids = ids.take(at)
    name = pc.binary_join_element_wise(ORIGIN, image_ids, pa.array(number).cast(pa.string()), ":")
    images, splits = (column.take(at) for column in said)
    languages, origin = (pa.repeat(word, len(image)) for word in (LANGUAGE, ORIGIN))
    return pa.table([name, image_ids, images, splits, languages, origin, text], schema=GENERATED)


def summary(counts: Mapping[str, int], config: CaptionConfig) -> str:
    """What came out, in a line. Raises ValueError when there was no image to write of."""
    if not counts.get("images"):
        raise ValueError(
            f"splits must have images with features, have none: {', '.join(config.splits) or 'by default'}"
        )
    refused = {name.removeprefix("refused."): times for name, times in counts.items() if name.startswith("refused.")}
    said = ", ".join(f"{name} {times:,}" for name, times in sorted(refused.items(), key=lambda item: -item[1]))
    short = f"; {counts['short']:,} images have fewer than {config.n}" if counts.get("short") else ""
    return (
        f"{counts['captions']:,} captions of {counts['images']:,} images in {config.table}"
        f"; refused {sum(refused.values()):,}" + (f" ({said})" if refused else "") + short
    )


def refused_table(table: str) -> str:
    """The table of what was refused beside a table of captions."""
    return REFUSED + table.removeprefix(TABLE)


def stage_of(table: str) -> Stage:
    """The stage that writes a table of this name, and what was refused of it."""
    return Stage(
        name="caption",
        input="features",
        outputs={refused_table(table): REFUSED_CAPTIONS, table: GENERATED},
        apply=caption,
        whole=("captions",),
        batch=None,
    )


STAGE = stage_of(TABLE)
