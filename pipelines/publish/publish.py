"""Publish a run: select, check, write the format with data card and metadata, and move the finished folder in place."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ...augment.operators import UNCHECKED
from ...schemas.captions import TRAIN_SPLITS
from ...schemas.images import image_fault
from ...schemas.messages import number_of
from ..engine.lock import holds_nothing, locked
from ..engine.manifest import read_manifest
from ..engine.storage import files_below, move, remove_empty, sha256_file, staged
from ..engine.tables import shards_of
from ..quality.bias.measure import LIMIT, cached_reports, of_random_images, read_corpus
from ..report.tables import console_of, print_table
from ..tables.examples import chosen_names
from ..tables.images import Images, abbreviate, read_boxes
from ..tables.pairs import accepted, p_true_by_readers
from . import gate
from .card import Facts, File, Survey, card, croissant
from .formats import PublishConfig, format_named, votes
from .gate import GateVerdict, TrainSplit
from .layout import IMAGE, IMAGES, Column, FileSet, Format, Publication, RecordSet

CARD = "README.md"
CROISSANT = "croissant.json"
SUMS = "SHA256SUMS"
STEPS = ("captions", "parses", "lexicon", "truth", "balance", "negatives", "refined")  # tables with settings
EXAMPLES = 5
ESTIMATES = ("p_true", "p_unnatural", "p_compatible")  # probabilities of a negative whose means the card gives
# Parquet metadata that the card leaves out
TECHNICAL = "table schema_version ARROW:schema pandas config operators seed stage".split()
Say = Callable[[str], None]


class RefusedError(Exception):
    """A check failed, so that nothing is published: `lines` say which; `verdict` is that of the blind gate."""

    def __init__(self, lines: Sequence[str], verdict: GateVerdict | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
        self.verdict = verdict


def print_refusal(refused: RefusedError, stream: TextIO) -> None:
    """Print why nothing was published: tables of the accuracies and of the words that identify negatives; advice."""
    if refused.verdict is not None:
        for table in (gate.verdict_table(refused.verdict), gate.cues_table(refused.verdict)):
            print_table(console_of(stream), table)
        stream.write("\n")
    stream.writelines(f"{line}\n" for line in refused.lines)


class Published(NamedTuple):
    """The relative paths of the files written; by split the number of negatives, or of captions in a format without."""

    files: list[str]
    splits: dict[str, int]


def publish(run: Path, output: Path, config: PublishConfig, *, overwrite: bool = False, say: Say = print) -> Published:
    """Write a run to the folder `output` in the format `config.format`. overwrite: replace what another config or run
    has written. say: gets messages for the user. Nothing is written unless all checks pass. Raises RefusedError when
    negatives can be guessed, operators do not check theirs, or captions of the train split are in a test split, too;
    ValueError and OSError for bad input: see `chosen_names`, `Images`, `PublishConfig`; LockedError if another command
    writes into `output`.
    """
    if output.exists() and not output.is_dir():
        raise FileExistsError(f"output must be a folder, was: {output}")
    with locked(output):
        return _publish(run, output, config, overwrite, say)


def _publish(run: Path, output: Path, config: PublishConfig, overwrite: bool, say: Say) -> Published:
    kind = format_named(config.format)
    if not overwrite and not holds_nothing(output):
        raise FileExistsError(
            f"output must be an empty folder, {output} is not (--overwrite replaces what is published there)"
        )
    output = output.resolve()
    publication = prepare(run, config, kind)
    unchecked = [name for name in publication.operators if name in UNCHECKED]
    if unchecked and not config.allow_unchecked:
        asked = "--operator chooses others; --set allow_unchecked=true publishes them anyway, as the data card says so"
        raise RefusedError([f"not checked to be false of their images: negatives of {', '.join(unchecked)}", asked])
    train = gate.read_train_split(run) if set(publication.splits) - set(TRAIN_SPLITS) else TrainSplit()
    found = survey(publication, train, config.seed, kind.siblings)
    left_out = keep_out(found, config, say)
    if left_out:
        publication = replace(publication, left_out=left_out)
        again = survey(publication, TrainSplit(), config.seed)
        found = again._replace(leaks=found.leaks, missing=found.missing, unfit=found.unfit)
    if not found.counts:
        splits = ", ".join(publication.splits)
        raise ValueError(f"nothing to publish of {run} ({splits}) as {config.format}: no caption is left")
    verdict = pass_gate(run, found, config, say)
    with staged(output) as new:
        records = kind.write(publication, new)
        if config.copy_images and not kind.embeds:
            records.append(copy_images(publication, new))
        files = digests(new)
        origin = provenance(publication), made_with(publication)
        facts = Facts(publication, found, verdict, *origin, tuple(records), files)
        _write(new / SUMS, "".join(f"{file.sha256}  {file.path}\n" for file in files))
        _write(new / CROISSANT, json.dumps(croissant(facts), indent=1, ensure_ascii=False) + "\n")
        _write(new / CARD, card(replace(facts, files=(*files, *digests(new, (CROISSANT, SUMS))))))
        counted = facts.table[facts.operators or ["captions"]].sum(axis=1)
        return Published(move_into_place(new, output), {str(split): int(n) for split, n in counted.items()})


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


def prepare(run: Path, config: PublishConfig, kind: Format) -> Publication:
    """The publication that the config describes; ValueError for operators of a format without negatives."""
    if config.operators and not kind.negatives:
        raise ValueError(f"format {config.format} holds no negatives: operators cannot be chosen")
    table = ("refined" if config.refined else "negatives") if kind.negatives else ""
    splits, operators = chosen_names(run, config.split, config.operators, table)
    given = votes(config.votes) if kind.votes else {}
    kept = accepted(run) if config.vetted else None
    if kind.votes:
        kept = frozenset(given) if kept is None else kept & frozenset(given)
    images = None if config.images is None else Images(config.images)
    boxes = {} if config.boxes is None else read_boxes(config.boxes)
    seen = p_true_by_readers(run)
    return Publication(run, config, kind, splits, operators, images, boxes, given, kept, p_true=seen)


def survey(publication: Publication, train: TrainSplit, seed: int, siblings: bool = False) -> Survey:
    """Count captions, collect a pair per caption and operator, find leaks (with `siblings`, too) and missing images."""
    names = publication.operators
    lists: tuple[dict[str, list[Any]], ...] = ({name: [] for name in names}, {name: [] for name in names})
    found = Survey(Counter(), lists[0], dict.fromkeys(product(names, ESTIMATES), (0.0, 0)), lists[1], {}, {}, {})
    for rows in publication.tables():
        captions = rows.drop_duplicates("caption_id")
        images = rows.drop_duplicates(["image_id", "split"])
        texts = rows.drop_duplicates("text_id")
        found.counts.update((split, "images") for split in images["split"])
        found.counts.update((split, "captions") for split in captions["split"])
        found.counts.update(rows[["split", "operator"]].dropna().itertuples(index=False, name=None))
        for text in texts.itertuples():
            found.leaks.update((id, (what, name)) for id, what, name in train.leaks(text, siblings))
        faults = {name: image_fault(name) for name in images["image"].unique()}
        for caption_id, fault in zip(captions["caption_id"], captions["image"].map(faults), strict=True):
            if fault is not None:
                found.unfit[caption_id] = fault.detail
        if publication.images is not None:
            named = captions[~captions["caption_id"].isin(found.unfit)]
            missing = named[named["image"].map(publication.images.find).isna()]
            found.missing.update(zip(missing["caption_id"], missing["image"], strict=True))
        for operator, some in ((str(name), some) for name, some in rows.groupby("operator")):
            shown = found.examples[operator]
            first = some.drop_duplicates("image_id")[["text", "negative"]].head(EXAMPLES - len(shown))
            shown += first.itertuples(index=False, name=None)
            for name in ESTIMATES:
                (total, known), values = found.means[operator, name], some[name].dropna()
                found.means[operator, name] = total + math.fsum(values), known + len(values)
        for operator, pair in gate.pairs_of(rows.itertuples(), seed):
            found.pairs[operator].append(pair)
        for operator, pairs in found.pairs.items():
            if len(pairs) > 2 * LIMIT:
                found.pairs[operator] = of_random_images(pairs, LIMIT, seed)
    return found._replace(pairs={name: pairs for name, pairs in found.pairs.items() if pairs})


def keep_out(found: Survey, config: PublishConfig, say: Say) -> frozenset[str]:
    """The caption_ids to leave out. If the config does not allow it, RefusedError (leaks) or FileNotFoundError."""
    lines = []
    for what in ("image", "caption"):
        names = sorted({name for kind, name in found.leaks.values() if kind == what})
        if names:
            lines.append(f"{number_of(len(names), what)} of the train split also in another split: {abbreviate(names)}")
    if lines and not config.skip_leaks:
        raise RefusedError([*lines, "--set skip_leaks=true leaves their captions out"])
    if found.missing:
        names = sorted(set(found.missing.values()))
        lines.append(f"{number_of(len(names), 'image')} missing from {config.images}: {abbreviate(names)}")
        if config.images is not None and any(config.images.glob("*.tar")):
            lines[-1] += "; images in tar files are not read: extract them"
        if not config.skip_missing:
            raise FileNotFoundError(f"{lines[-1]}; --set skip_missing=true leaves their captions out")
    if found.unfit:
        names = sorted(set(found.unfit.values()))
        lines.append(f"{number_of(len(names), 'image')} with a name that cannot be published: {abbreviate(names)}")
    for line in lines:
        say(f"left out: {line}")
    return frozenset(found.leaks) | frozenset(found.missing) | frozenset(found.unfit)


def pass_gate(run: Path, found: Survey, config: PublishConfig, say: Say) -> GateVerdict:
    """Measure pairs without images. RefusedError for what can be guessed, but for `allow_blind` or training."""
    if not found.pairs:
        return GateVerdict(config.max_blind)
    verdict = gate.judge_negatives(found.pairs, config.max_blind, cached_reports(run, config.seed, read_corpus(run)))
    if verdict.refused and not (config.allow_blind or format_named(config.format).training):
        lines = ["--allow-blind publishes them all the same, and the data card says so"]
        if not config.refined:
            lines.insert(0, f"negcap refine {run}, then --refined, publishes the negatives that can be guessed least")
        raise RefusedError(lines, verdict)
    if verdict.refused:
        say(f"published although they can be guessed without the images: {', '.join(verdict.refused)}")
    if verdict.doubtful:
        few = ", ".join(f"{name} ({number:,})" for name, number in verdict.doubtful.items())
        say(f"not held to the limit, {gate.TOO_FEW}: {few}")
    return verdict


def copy_images(publication: Publication, folder: Path) -> RecordSet:
    """Copy a publication's images to its image folder, keeping their relative paths; returns their RecordSet."""
    place = publication.image_folder
    for row in publication.rows():
        target = folder / place / row.image
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(publication.read(row))
    columns = (
        Column("path", f"the image's path in {place}/", property="fullpath", regex=f"^{place}/(.+)$"),
        Column("image", "the image", IMAGE, property="content"),
    )
    return RecordSet(IMAGES, "the image files", columns, FileSet(f"{place}/*", listed=False))


def provenance(publication: Publication) -> dict[str, str]:
    """The Parquet metadata of the published table: the versions, parser, seed and configuration it was made with."""
    metadata = shards_of(publication.run, publication.table or "captions")[0].read([]).schema.metadata or {}
    found = {key.decode(): value.decode() for key, value in sorted(metadata.items())}
    return {key: value for key, value in found.items() if key not in TECHNICAL}


def made_with(publication: Publication) -> dict[str, Mapping[str, Any]]:
    """By table on the way its settings; as `source`, by the name of each file that was read its size and SHA-256."""
    manifests = {name: read_manifest(publication.run / name) for name in STEPS}
    made = {name: found.identity for name, found in manifests.items() if found is not None}
    source = {"source": made["captions"].inputs} if "captions" in made else {}
    used = [name for name in made if name != "refined" or publication.table == name]
    published = {"seed": publication.config.seed, "per_operator": publication.per_operator}
    return source | {name: made[name].config for name in used if made[name].config} | {"publish": published}


def digests(folder: Path, names: Sequence[str] = ()) -> tuple[File, ...]:
    """Path, size and SHA-256 of every file below a folder, or only of those in `names` if given."""
    paths = [folder / name for name in names] or files_below(folder)
    return tuple(File(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_file(path)) for path in paths)


def move_into_place(new: Path, output: Path) -> list[str]:
    """Move all files of the folder `new` to `output`, in place of those in its SHA256SUMS; returns their paths in it.
    At any moment SHA256SUMS lists all files that are there, so that another publication can replace what a killed one
    has left. Raises ValueError if a link in `output` would lead a file out of it.
    """
    written = [path.relative_to(new).as_posix() for path in files_below(new)]
    for name in written:
        if not (output / name).resolve().is_relative_to(output):
            raise ValueError(f"{output / name} leads out of the output folder: remove the link")
    sums = output / SUMS
    emptied = set[Path]()
    if sums.is_file():
        listed = [line.partition("  ")[2] for line in sums.read_text(encoding="utf-8").splitlines()]
        for old in (output / name for name in (*filter(None, listed), CARD, CROISSANT)):
            if old.is_file() and old.resolve().is_relative_to(output):
                old.unlink()
                emptied |= {output / folder for folder in old.relative_to(output).parents if folder.name}
    for name in (SUMS, *(name for name in written if name != SUMS)):
        move(new / name, output / name)
    for folder in sorted(emptied, reverse=True):
        remove_empty(folder)
    return written
