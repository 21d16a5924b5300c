"""Publish a run: select, check, write a format with its card and metadata, and put it in place as a whole."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import get_args

from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.publish.card import Facts, write_card
from negcap.pipelines.publish.croissant import write_croissant
from negcap.pipelines.publish.formats import format_named
from negcap.pipelines.publish.gate import TRAIN, RefusedError, Trained, Verdict, judge, pairs_of, trained
from negcap.pipelines.publish.output import CARD, CROISSANT, SUMS, check_output, digests, put
from negcap.pipelines.publish.publication import IMAGES, Format, Publication
from negcap.pipelines.publish.selection import select
from negcap.pipelines.quality.bias import Pair, Pick, read_corpus
from negcap.pipelines.tables.images import Images, name_some, read_boxes

UNTOLD = ("table", "schema_version", "ARROW:schema", "pandas")
Say = Callable[[str], None]


@dataclass(frozen=True)
class PublishConfig:
    """What is published, and how. Raises ValueError for an unknown format, no license, or a number out of bounds.

    refined: publish what `negcap refine` kept.
    images: the folder with the image files; boxes: a CSV of image parts; copy_images: publish the image files too.
    skip_missing, skip_leaks: leave out what has no image file, or stands in the train split, instead of refusing.
    max_blind: the most (%) that a blind baseline may reach; allow_blind publishes all the same, and says so.
    """

    format: str
    license: str
    split: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    refined: bool = False
    per_caption: int | None = None
    pick: Pick = "first"
    seed: int = 0
    images: Path | None = None
    boxes: Path | None = None
    copy_images: bool = False
    skip_missing: bool = False
    skip_leaks: bool = False
    max_blind: float = 60.0
    allow_blind: bool = False
    name: str = ""
    url: str = ""
    creator: str = ""
    date: str = ""
    cite: str = ""

    def __post_init__(self) -> None:
        kind = format_named(self.format)
        if not self.license.strip():
            raise ValueError("license must be given: the terms under which captions and images may be passed on")
        if self.per_caption is not None and self.per_caption < 1:
            raise ValueError(f"per_caption must be >= 1, was: {self.per_caption}")
        if self.pick not in get_args(Pick):
            raise ValueError(f"pick must be one of {', '.join(get_args(Pick))}, was: {self.pick}")
        if not 50 <= self.max_blind <= 100:
            raise ValueError(f"max_blind must be from 50 to 100, was: {self.max_blind:g}")
        if self.date:
            _check_date(self.date)
        if self.images is None and (kind.images == "files" or self.copy_images or self.skip_missing):
            what = f"format {self.format}" if kind.images == "files" else "copying or skipping images"
            raise ValueError(f"{what} needs the image files: --images FOLDER")
        if self.images is None and self.boxes is None and kind.images == "sizes":
            raise ValueError(f"format {self.format} needs the images' sizes: --images FOLDER, or --boxes FILE")


def _check_date(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"date must be YYYY-MM-DD, was: {text}") from None


@dataclass(frozen=True)
class Survey:
    """What a pass over a selection found: `counts` by (split, what), pairs by operator, what must stay out."""

    counts: Counter[tuple[str, str]]
    pairs: dict[str, list[Pair]]
    leaks: dict[str, tuple[str, str]]
    missing: dict[str, str]


def publish(run: Path, output: Path, config: PublishConfig, *, overwrite: bool = False, say: Say = print) -> list[str]:
    """Write a run's captions and negatives to `output` in a format; the paths written.

    Nothing is written unless all checks pass. Raises RefusedError when a check fails (guessable negatives, train
    captions in another split), ValueError and OSError for bad input: see `select`, `Images`, `PublishConfig`.
    """
    kind = format_named(config.format)
    check_output(output, overwrite)
    output = output.resolve()
    publication = prepare(run, config, kind)
    train = trained(run) if set(publication.selection.splits) - set(TRAIN) else None
    found = survey(publication, train, config.seed, kind.siblings)
    out = keep_out(found, config, say)
    if out:
        selection = replace(publication.selection, left_out=publication.selection.left_out | out)
        publication = replace(publication, selection=selection)
        found = replace(survey(publication, None, config.seed), leaks=found.leaks, missing=found.missing)
    if not found.counts:
        splits = ", ".join(publication.selection.splits)
        raise ValueError(f"nothing to publish of {run} ({splits}) as {config.format}: no caption is left")
    verdict = pass_gate(run, found, config, say)
    output.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        records = kind.write(publication, staged)
        if config.copy_images and not kind.embeds:
            copy_images(publication, staged / IMAGES)
        files = digests(staged)
        facts = Facts(config, kind, publication, found.counts, verdict, len(found.leaks), len(found.missing))
        facts = replace(facts, provenance=provenance(run, publication), records=tuple(records), files=files)
        sums = "".join(f"{file.sha256}  {file.path}\n" for file in files)
        (staged / SUMS).write_text(sums, encoding="utf-8", newline="\n")
        write_croissant(staged / CROISSANT, facts)
        write_card(staged / CARD, replace(facts, files=(*files, *digests(staged, (CROISSANT, SUMS)))))
        staged.chmod(0o755)  # a temporary folder is its owner's alone
        return put(staged, output)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def prepare(run: Path, config: PublishConfig, kind: Format) -> Publication:
    """What is asked for, with its images. Raises as `select`, `Images` and `read_boxes`."""
    if config.operators and not kind.negatives:
        raise ValueError(f"format {config.format} holds no negatives: operators cannot be chosen")
    per_caption = config.per_caption or kind.per_caption
    table = ("refined" if config.refined else "negatives") if kind.negatives else ""
    selection = select(run, config.split, config.operators, per_caption, config.pick, config.seed, kind.prepare, table)
    images = None if config.images is None else Images(config.images)
    boxes = {} if config.boxes is None else read_boxes(config.boxes)
    return Publication(selection, images, boxes, config.copy_images, config.license)


def survey(publication: Publication, train: Trained | None, seed: int, siblings: bool = False) -> Survey:
    """Count a publication's examples, take a pair a caption and operator, and find what must stay out."""
    counts: Counter[tuple[str, str]] = Counter()
    pairs: dict[str, list[Pair]] = {name: [] for name in publication.selection.operators}
    leaks: dict[str, tuple[str, str]] = {}
    missing: dict[str, str] = {}
    for examples in publication.by_image():
        for split in {example.split for example in examples}:
            counts[split, "images"] += 1
        for example in examples:
            for caption_id, what, said in train.leaks(example, siblings) if train is not None else ():
                leaks[caption_id] = what, said
            if publication.images is not None and publication.images.find(example.image) is None:
                missing[example.caption_id] = example.image
            counts[example.split, "captions"] += 1
            for negative in example.negatives:
                counts[example.split, negative.operator] += 1
            for operator, pair in pairs_of(example, seed):
                pairs[operator].append(pair)
    return Survey(counts, {name: rows for name, rows in pairs.items() if rows}, leaks, missing)


def keep_out(found: Survey, config: PublishConfig, say: Say) -> frozenset[str]:
    """The caption_ids to leave out, said and allowed. Raises RefusedError for leaks, FileNotFoundError for images."""
    if found.leaks:
        said = []
        for what in ("image", "caption"):
            names = dict.fromkeys(name for kind, name in found.leaks.values() if kind == what)
            if names:
                said.append(f"{len(names):,} {what}s of the train split stand in another split: {name_some(names)}")
        if not config.skip_leaks:
            raise RefusedError([*said, "--skip-leaks leaves their captions out"])
        for line in said:
            say(f"left out: {line}")
    if found.missing:
        names = dict.fromkeys(found.missing.values())
        said_missing = f"{len(names):,} images are not in {config.images}: {name_some(names)}"
        if not config.skip_missing:
            raise FileNotFoundError(f"{said_missing}; --skip-missing leaves their captions out")
        say(f"left out: {said_missing}")
    return frozenset(found.leaks) | frozenset(found.missing)


def pass_gate(run: Path, found: Survey, config: PublishConfig, say: Say) -> Verdict:
    """Measure what can be guessed without the images. Raises RefusedError when it is more than is allowed."""
    verdict = judge(found.pairs, config.max_blind, config.seed, read_corpus(run) if found.pairs else ())
    if verdict.lines and not config.allow_blind:
        hint = "--allow-blind publishes all the same, and says so in the data card"
        if not config.refined:
            hint = f"negcap refine {run}, then --refined, publishes the rows that tell least; {hint}"
        raise RefusedError([*verdict.lines, hint])
    for line in verdict.lines:
        say(f"allowed: {line}")
    for line in verdict.doubts:
        say(line)
    return verdict


def copy_images(publication: Publication, folder: Path) -> None:
    """Copy the images of a publication under their names."""
    assert publication.images is not None
    for examples in publication.by_image():
        target = folder / examples[0].image
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(publication.images.read(examples[0].image))


def provenance(run: Path, publication: Publication) -> dict[str, str]:
    """What the Parquet metadata of the negatives, or without any the captions, says of their making."""
    import pyarrow.parquet as pq

    shard = list_shards(run / (publication.selection.table or "captions"))[0]
    metadata = pq.read_schema(shard).metadata or {}
    told = {key.decode(): value.decode() for key, value in metadata.items()}
    return {key: value for key, value in sorted(told.items()) if key not in UNTOLD}
