"""Stage caption: features and captions -> captions generated for the images, and those that were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ...augment.settings import matching
from ...schemas.captions import GENERATED, LANGUAGE, REFUSED_CAPTIONS
from ...schemas.fields import table_of
from ...schemas.messages import number_of
from ..engine.stage import Stage, StageResult
from ..engine.storage import sha256_file
from ..engine.tables import WholeTable
from ..models.settings import WritingConfig
from ..tables.columns import stored_splits

if TYPE_CHECKING:
    from ..models.captioner.model import Captioner

TABLE = "generated"
REFUSED = "refused_captions"
ORIGIN = "generated"


class CaptionConfig(WritingConfig):
    """Which captioner writes captions, and how. weights: the file with its generator, in the captioner's folder."""

    weights: Path
    splits: tuple[str, ...] = Field(
        (), description="only images of this split; none: those the captioner was trained on"
    )
    table: Annotated[str, matching(rf"{TABLE}(_[a-z0-9]+)?", f"{TABLE}, or {TABLE}_ and a name of a-z and 0-9")] = (
        Field(TABLE, description=f"table to write: {TABLE} or {TABLE}_NAME")
    )


@lru_cache(maxsize=2)
def cached_captioner(weights: Path, sha256: str) -> Captioner:
    """A captioner on the CPU, loaded once per process.

    Args:
        weights: its file.
        sha256: of the file, as part of the cache key: other contents are loaded anew.
    """
    import torch

    from ..models.captioner.model import Captioner

    return Captioner(weights, torch.device("cpu"))


class ImageRow(NamedTuple):
    """What the table captions says of an image: its file, and its split."""

    image: str
    split: str


class KnownCaptions(NamedTuple):
    """The images of the table captions, by image_id, and the `caption_keys` of its captions."""

    images: Mapping[str, ImageRow]
    keys: pa.Array


@lru_cache(maxsize=2)
def cached_captions(captions: WholeTable) -> KnownCaptions:
    """The images and the keys of all captions in a table, kept in memory as long as its content is the same."""
    from ..models.captioner.generate import caption_keys

    rows = captions.read(["image_id", "image", "split", "text"]).combine_chunks()
    keys = caption_keys(rows["image_id"].combine_chunks(), rows["text"].combine_chunks())
    images = map(ImageRow, rows["image"].to_pylist(), rows["split"].to_pylist())
    return KnownCaptions(MappingProxyType(dict(zip(rows["image_id"].to_pylist(), images, strict=True))), keys)


def caption(features: pa.Table, config: CaptionConfig, captions: WholeTable) -> StageResult:
    """Write captions for the images in a shard of features.

    Counters: captions, images, `refused.<reason>`, and `short`, the images with fewer captions than asked for. Raises
    ValueError for features of another size or backbone than the captioner's.
    """
    import torch

    from ..models.captioner.generate import generate_captions
    from ..models.captioner.model import transform_features
    from ..models.features import feature_values

    captioner = cached_captioner(config.weights, sha256_file(config.weights))
    of_run = cached_captions(captions)
    splits = stored_splits(config.splits or captioner.config.train_splits)
    names = features["image_id"].to_pylist()
    # Rows of `features`: images of these splits; an image that no caption names has no split.
    chosen = [row for row, name in enumerate(names) if name in of_run.images and of_run.images[name].split in splits]
    written = GENERATED.empty_table()
    refused = REFUSED_CAPTIONS.empty_table()
    counts = Counter({"captions": 0})
    if chosen:
        values, backbone = feature_values(features, "features")
        captioner.require_features(values, backbone)
        images = [names[row] for row in chosen]
        transformed = transform_features(values[torch.tensor(chosen)], captioner.config.transform)
        # rows of all texts that were tried; `image` is a position in `images`, `reason` null if a text is kept
        tried = generate_captions(captioner, images, transformed, of_run.keys, config)
        tried = tried.append_column("image_id", [pc.take(images, tried["image"])])
        kept = tried.filter(tried["reason"].is_null())
        not_kept = tried.filter(tried["reason"].is_valid())
        written = _generated_rows(kept, of_run.images)
        refused = not_kept.select(REFUSED_CAPTIONS.names).cast(REFUSED_CAPTIONS)
        counts.update(images=len(images), captions=len(kept))
        counts.update(f"refused.{reason}" for reason in not_kept["reason"].to_pylist())
        captions_of_images = Counter(kept["image"].to_pylist())
        complete = sum(number >= config.per_image for number in captions_of_images.values())
        counts["short"] = len(images) - complete
    return StageResult({refused_table(config.table): refused, config.table: written}, counts)


def _generated_rows(kept: pa.Table, images: Mapping[str, ImageRow]) -> pa.Table:
    """The rows of the table GENERATED.

    Args:
        kept: the captions, with image_id and text; those of an image stand together.
        images: the file and split of each image, by image_id.
    """
    rows = []
    next_number = Counter[str]()  # the number that the next caption of an image gets, by image_id
    for image_id, text in zip(kept["image_id"].to_pylist(), kept["text"].to_pylist(), strict=True):
        image = images[image_id]
        caption_id = f"{ORIGIN}:{image_id}:{next_number[image_id]}"
        rows.append((caption_id, image_id, image.image, image.split, LANGUAGE, ORIGIN, text))
        next_number[image_id] += 1
    return table_of(rows, GENERATED)


def summary(counts: Mapping[str, int], config: CaptionConfig) -> str:
    """The counters of the stage in one line, for the user. Raises ValueError when there was no image to caption."""
    if not counts.get("images"):
        raise ValueError(
            f"splits must have images with features, have none: {', '.join(config.splits) or 'by default'}"
        )
    refused = {name.removeprefix("refused."): times for name, times in counts.items() if name.startswith("refused.")}
    reasons = ", ".join(f"{name} {times:,}" for name, times in sorted(refused.items(), key=lambda item: -item[1]))
    short = ""
    if counts.get("short"):
        short = f"; {number_of(counts['short'], 'image')} with fewer than {config.per_image}"
    return (
        f"{number_of(counts['captions'], 'caption')} of {number_of(counts['images'], 'image')} in {config.table}"
        f"; refused {sum(refused.values()):,}" + (f" ({reasons})" if refused else "") + short
    )


def refused_table(table: str) -> str:
    """Name of the table of refused captions that belongs to the table of generated captions `table`."""
    return REFUSED + table.removeprefix(TABLE)


def stage_of(table: str) -> Stage:
    """The stage that writes the table of generated captions `table` and its table of refused captions."""
    outputs = {refused_table(table): REFUSED_CAPTIONS, table: GENERATED}
    # Each shard of features needs the whole table of captions. No batches: the captioner divides the images of a shard.
    return Stage("caption", "features", outputs, caption, whole=("captions",), batch=None)


STAGE = stage_of(TABLE)
