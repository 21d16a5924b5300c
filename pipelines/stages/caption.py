"""Stage caption: features and captions -> captions generated for the images, and those that were refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ...schemas.captions import CAPTION_REASONS, GENERATED, LANGUAGE, REFUSED_CAPTIONS
from ..engine.stage import Stage, StageResult
from ..engine.storage import sha256_file
from ..engine.tables import WholeTable
from ..models.captioner.config import WritingConfig
from ..tables.columns import stored_splits

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ..models.captioner.model import Captioner

TABLE, REFUSED, ORIGIN = "generated", "refused_captions", "generated"
_TABLE = re.compile(rf"{TABLE}(_[a-z0-9]+)?")


@dataclass(frozen=True)
class CaptionConfig:
    """Which captioner writes captions, and how. Raises ValueError for a value that is not valid.

    weights: the file with the captioner's generator, in the folder of the captioner. n, seed, decoding, width, tries:
    see WritingConfig. splits: caption the images of these; empty: of those the captioner was trained on. table: to
    write: `generated`, or `generated_<name>` to keep several.
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
        self.writing()
        if not _TABLE.fullmatch(self.table):
            raise ValueError(f"table must be {TABLE}, or {TABLE}_ and a name of a-z and 0-9, was: {self.table}")

    def writing(self) -> WritingConfig:
        """The settings for writing captions."""
        return WritingConfig(self.n, self.seed, self.decoding, self.width, self.tries)


class CaptionedImages(NamedTuple):
    """The images of a run. rows: (image file, split) by image_id. own: `caption_keys` of their existing captions."""

    rows: Mapping[str, tuple[str, str]]
    own: pa.Array


@lru_cache(maxsize=2)
def cached_captioner(weights: Path, sha256: str) -> Captioner:
    """A captioner on the CPU, loaded once per process. sha256: of the file `weights`; another hash loads it again."""
    import torch

    from ..models.captioner.model import load_captioner

    return load_captioner(weights, torch.device("cpu"))


@lru_cache(maxsize=2)
def cached_images(captions: WholeTable) -> CaptionedImages:
    """The images of a run, from its table captions; read once per process and content of the table."""
    from ..models.captioner.generate import caption_keys

    rows = captions.read(["image_id", "image", "split", "text"]).combine_chunks()
    columns = [rows[name].to_pylist() for name in ("image_id", "image", "split")]
    own = caption_keys(rows["image_id"].combine_chunks(), rows["text"].combine_chunks())
    files = {name: (image, split) for name, image, split in zip(*columns, strict=True)}
    return CaptionedImages(MappingProxyType(files), own)


def caption(features: pa.Table, config: CaptionConfig, captions: WholeTable) -> StageResult:
    """Write captions for the images in a shard of features; the function of the stage.

    Counters: `captions`, `images`, `refused.<reason>`, and `short`: images with fewer than n captions because too many
    were refused. Raises ValueError for features of another size or backbone than the captioner was trained on.
    """
    import numpy as np
    import pyarrow as pa
    import torch

    from ..models.captioner.generate import ImagesToCaption, generate_captions
    from ..models.captioner.model import transform_features
    from ..models.features import feature_values

    captioner = cached_captioner(config.weights, sha256_file(config.weights))
    known = cached_images(captions)
    splits = stored_splits(config.splits or captioner.config.train_splits)
    names = features["image_id"].to_pylist()
    wanted = [n for n, name in enumerate(names) if name in known.rows and known.rows[name][1] in splits]
    if not wanted:
        return _result(GENERATED.empty_table(), REFUSED_CAPTIONS.empty_table(), Counter(), config.table)
    values, backbone = feature_values(features, "features")
    captioner.require_features(values, backbone)
    images = [names[n] for n in wanted]
    transformed = transform_features(values[torch.tensor(wanted)], captioner.config.transform)
    made = generate_captions(captioner, ImagesToCaption(images, transformed, known.own), config.writing())
    kept = made.reason == 0
    counts = Counter({"images": len(images)})
    counts["short"] = int((np.bincount(made.image[kept], minlength=len(images)) < config.n).sum())
    for reason, times in zip(*np.unique(made.reason[~kept], return_counts=True), strict=True):
        counts[f"refused.{CAPTION_REASONS[reason - 1]}"] = int(times)
    ids = pa.array(images, pa.string())
    refused = pa.table(
        [
            ids.take(pa.array(made.image[~kept])),
            pa.array(made.number[~kept].astype(np.int32)),
            pa.array(CAPTION_REASONS).take(pa.array(made.reason[~kept] - 1)),
            made.text.filter(pa.array(~kept)),
        ],
        schema=REFUSED_CAPTIONS,
    )
    return _result(
        _captions(made.image[kept], ids, made.text.filter(pa.array(kept)), known), refused, counts, config.table
    )


def _result(captions: pa.Table, refused: pa.Table, counts: Counter[str], table: str) -> StageResult:
    counts["captions"] = captions.num_rows
    return StageResult({refused_table(table): refused, table: captions}, counts)


def _captions(image: np.ndarray, ids: pa.Array, text: pa.Array, known: CaptionedImages) -> pa.Table:
    """Rows of GENERATED. image (n,): the index of each caption's image in `ids` (I,), sorted; text (n,)."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    first = np.flatnonzero(np.diff(image, prepend=-1))
    number = np.arange(len(image)) - np.repeat(first, np.diff([*first, len(image)]))
    columns = [
        pa.array(values, pa.string()) for values in zip(*(known.rows[name] for name in ids.to_pylist()), strict=True)
    ]
    at = pa.array(image)
    image_ids = ids.take(at)
    name = pc.binary_join_element_wise(ORIGIN, image_ids, pa.array(number).cast(pa.string()), ":")
    images, splits = (column.take(at) for column in columns)
    languages, origin = (pa.repeat(word, len(image)) for word in (LANGUAGE, ORIGIN))
    return pa.table([name, image_ids, images, splits, languages, origin, text], schema=GENERATED)


def summary(counts: Mapping[str, int], config: CaptionConfig) -> str:
    """The counters of the stage in one line, for the user. Raises ValueError when there was no image to caption."""
    if not counts.get("images"):
        raise ValueError(
            f"splits must have images with features, have none: {', '.join(config.splits) or 'by default'}"
        )
    refused = {name.removeprefix("refused."): times for name, times in counts.items() if name.startswith("refused.")}
    reasons = ", ".join(f"{name} {times:,}" for name, times in sorted(refused.items(), key=lambda item: -item[1]))
    short = f"; {counts['short']:,} images have fewer than {config.n}" if counts.get("short") else ""
    return (
        f"{counts['captions']:,} captions of {counts['images']:,} images in {config.table}"
        f"; refused {sum(refused.values()):,}" + (f" ({reasons})" if refused else "") + short
    )


def refused_table(table: str) -> str:
    """Name of the table of refused captions that belongs to the table of generated captions `table`."""
    return REFUSED + table.removeprefix(TABLE)


def stage_of(table: str) -> Stage:
    """The stage that writes the table of generated captions `table` and its table of refused captions."""
    return Stage(
        name="caption",
        input="features",
        outputs={refused_table(table): REFUSED_CAPTIONS, table: GENERATED},
        apply=caption,
        whole=("captions",),
        batch=None,
    )


STAGE = stage_of(TABLE)
