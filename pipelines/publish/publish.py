"""Publish a run: select, check, write the format with data card and metadata, and move the finished folder in place."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ...augment.operators import UNCHECKED
from ...schemas.captions import TRAIN_SPLITS
from ...schemas.images import image_fault
from ...schemas.messages import number_of
from ..engine.lock import holds_nothing, locked
from ..engine.manifest import read_manifest
from ..engine.storage import files_below, move, remove_empty, sha256_file, staged
from ..engine.tables import shards_of
from ..quality.bias.baselines import TextPair
from ..quality.bias.measure import LIMIT, cached_reports, of_random_images, read_corpus
from ..report.tables import console_of, print_table
from ..tables.examples import chosen_names
from ..tables.images import Images, abbreviate, read_boxes
from ..tables.pairs import accepted, p_true_by_readers
from . import gate
from .card import Example, Facts, File, Survey, TruthShares, card, croissant
from .formats import PublishConfig, format_named, votes
from .gate import GateVerdict, Leak, TrainSplit
from .layout import IMAGE, IMAGES, Column, FileSet, Format, Json, Publication, RecordSet

if TYPE_CHECKING:
    import pandas as pd

CARD = "README.md"
CROISSANT = "croissant.json"
SUMS = "SHA256SUMS"
STEPS = ("captions", "parses", "lexicon", "truth", "balance", "negatives", "refined")  # tables with settings
EXAMPLES = 5
# The probabilities whose means over an operator's negatives the card gives.
ESTIMATES = ("p_true", "p_unnatural", "p_compatible")
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
    """The relative paths of the files written; by split, how many negatives were written, or how many captions if the
    format holds no negatives.
    """

    files: list[str]
    splits: dict[str, int]


def publish(run: Path, output: Path, config: PublishConfig, *, overwrite: bool = False, say: Say = print) -> Published:
    """Write a run to a folder in the format `config.format`. Nothing is written unless all checks pass.

    Args:
        run: the folder of the run.
        output: the folder that is written.
        config: what is published, and how.
        overwrite: whether to replace what another config or run has written there.
        say: gets messages for the user.

    Raises:
        RefusedError: if negatives can be guessed, operators do not check theirs, or captions of the train split are in
            a test split, too.
        ValueError: for an operator or split that the run lacks, or if no caption is left to publish.
        FileExistsError: if `output` holds files and `overwrite` is not given, or is a file.
        OSError: if an image or another file is missing, or cannot be read or written.
        LockedError: if another command writes into `output`.
    """
    if output.exists() and not output.is_dir():
        raise FileExistsError(f"output must be a folder, was: {output}")
    with locked(output):
        return _publish(run, output, config, overwrite, say)


def _publish(run: Path, output: Path, config: PublishConfig, overwrite: bool, say: Say) -> Published:
    """Choose what is published, have it pass the gate, and write it with its card, into a locked folder."""
    kind = format_named(config.format)
    if not overwrite and not holds_nothing(output):
        raise FileExistsError(
            f"output must be an empty folder, {output} is not (--overwrite replaces what is published there)"
        )
    output = output.resolve()
    publication = prepare(run, config, kind)
    _refuse_unchecked(publication)
    has_test_splits = bool(set(publication.splits) - set(TRAIN_SPLITS))
    train = gate.read_train_split(run) if has_test_splits else TrainSplit()
    found = survey(publication, train, config.seed, kind.siblings)
    left_out = keep_out(found, config, say)
    # A second pass, as counts, examples and pairs must be of what is left.
    if left_out:
        publication = replace(publication, left_out=left_out)
        # What is left has been compared with the train split already (and its siblings, if the format has them), so an
        # empty one stands for it here. The card names what the first pass found.
        again = survey(publication, TrainSplit(), config.seed)
        found = again._replace(leaks=found.leaks, missing=found.missing, unfit=found.unfit)
    if not found.counts:
        splits = ", ".join(publication.splits)
        raise ValueError(f"nothing to publish of {run} ({splits}) as {config.format}: no caption is left")
    verdict = pass_gate(run, found, config, say)
    # All is written into another folder, and moved only when it is complete.
    with staged(output) as new:
        records = kind.write(publication, new)
        if config.copy_images and not kind.embeds:  # some formats hold the image files inside their own
            records.append(copy_images(publication, new))
        files = digests(new)
        facts = Facts(
            publication=publication,
            found=found,
            verdict=verdict,
            provenance=provenance(publication),
            made_with=made_with(publication),
            records=tuple(records),
            files=files,
        )
        # In this order: Croissant lists the data, and the card lists both of them, but cannot have a hash of itself.
        _write_text(new / SUMS, "".join(f"{file.sha256}  {file.path}\n" for file in files))
        _write_text(new / CROISSANT, json.dumps(croissant(facts), indent=1, ensure_ascii=False) + "\n")
        _write_text(new / CARD, card(replace(facts, files=(*files, *digests(new, (CROISSANT, SUMS))))))
        # A row of facts.table is a split. A format without negatives counts its captions.
        counts = facts.table[facts.operators or ["captions"]].sum(axis=1)
        return Published(move_into_place(new, output), {str(split): int(number) for split, number in counts.items()})


def _refuse_unchecked(publication: Publication) -> None:
    """Raise RefusedError for operators that do not check that negatives are false, unless the config allows them."""
    unchecked = [name for name in publication.operators if name in UNCHECKED]
    if unchecked and not publication.config.allow_unchecked:
        advice = "--operator chooses others; --set allow_unchecked=true publishes them anyway, as the data card says so"
        raise RefusedError([f"not checked to be false of their images: negatives of {', '.join(unchecked)}", advice])


def _write_text(file: Path, text: str) -> None:
    """Write a text with the same bytes on every system."""
    file.write_text(text, encoding="utf-8", newline="\n")


def prepare(run: Path, config: PublishConfig, kind: Format) -> Publication:
    """The publication that the config describes; ValueError for operators of a format without negatives."""
    if config.operators and not kind.negatives:
        raise ValueError(f"format {config.format} holds no negatives: operators cannot be chosen")
    table = ""  # of negatives; captions alone are published without
    if kind.negatives:
        table = "refined" if config.refined else "negatives"
    splits, operators = chosen_names(run, config.split, config.operators, table)
    votes_of_negative = votes(config.votes) if kind.votes else {}
    kept = accepted(run) if config.vetted else None
    if kind.votes:
        voted = frozenset(votes_of_negative)
        kept = voted if kept is None else kept & voted
    return Publication(
        run=run,
        config=config,
        format=kind,
        splits=splits,
        operators=operators,
        images=None if config.images is None else Images(config.images),
        boxes={} if config.boxes is None else read_boxes(config.boxes),
        votes=votes_of_negative,
        accepted=kept,
        p_true=p_true_by_readers(run),
    )


def survey(publication: Publication, train: TrainSplit, seed: int, siblings: bool = False) -> Survey:
    """Look through a publication, before anything is written.

    Args:
        publication: what is counted.
        train: whose captions and images must not be in another split.
        seed: of the negatives that are measured.
        siblings: whether rows of the format also hold the other captions of the image, so that these must not be in the
            train split, either.
    """
    counts: Counter[tuple[str, str]] = Counter()
    leaks: dict[str, Leak] = {}
    missing: dict[str, str] = {}
    unfit: dict[str, str] = {}
    examples: dict[str, list[Example]] = {name: [] for name in publication.operators}
    means = dict.fromkeys(product(publication.operators, ESTIMATES), TruthShares())
    pairs: dict[str, list[TextPair]] = {name: [] for name in publication.operators}
    for rows in publication.tables():
        captions = rows.drop_duplicates("caption_id")
        counts += _count_by_split(rows, captions)
        for text in rows.drop_duplicates("text_id").itertuples():
            leaks |= {leak.caption_id: leak for leak in train.leaks(text, siblings)}
        unfit_here = _unfit_images(captions)
        unfit |= unfit_here
        missing |= _missing_images(publication, captions[~captions["caption_id"].isin(unfit_here)])
        for group, rows_of_operator in rows.groupby("operator"):
            operator = str(group)
            examples_so_far = examples[operator]
            of_different_images = rows_of_operator.drop_duplicates("image_id")[["text", "negative"]]
            more = of_different_images.head(EXAMPLES - len(examples_so_far)).itertuples(index=False)
            examples_so_far += [Example(*texts) for texts in more]
            for measure in ESTIMATES:
                so_far = means[operator, measure]
                values = rows_of_operator[measure].dropna()
                means[operator, measure] = TruthShares(so_far.total + math.fsum(values), so_far.number + len(values))
        for operator, pair in gate.pairs_of(rows.itertuples(), seed):
            pairs[operator].append(pair)
        for operator, pairs_so_far in pairs.items():
            if len(pairs_so_far) > 2 * LIMIT:  # to bound memory
                pairs[operator] = of_random_images(pairs_so_far, LIMIT, seed)
    with_pairs = {operator: pairs_of_operator for operator, pairs_of_operator in pairs.items() if pairs_of_operator}
    return Survey(counts, examples, means, with_pairs, leaks, missing, unfit)


def _count_by_split(rows: pd.DataFrame, captions: pd.DataFrame) -> Counter[tuple[str, str]]:
    """Count by split: {("test", "images"): 5, ("test", "captions"): 25, ("test", "noun"): 40}.

    rows: a negative each, of these captions.
    """
    counts: Counter[tuple[str, str]] = Counter()
    images = rows.drop_duplicates(["image_id", "split"])
    counts.update((split, "images") for split in images["split"])
    counts.update((split, "captions") for split in captions["split"])
    counts.update(rows[["split", "operator"]].dropna().itertuples(index=False, name=None))
    return counts


def _unfit_images(captions: pd.DataFrame) -> dict[str, str]:
    """For each caption whose image has a name that cannot be published, by caption_id, the reason."""
    # Each name once, as an image has several captions.
    faults = {name: image_fault(name) for name in captions["image"].unique()}
    details = {}
    for caption_id, image in zip(captions["caption_id"], captions["image"], strict=True):
        fault = faults[image]
        if fault is not None:
            details[caption_id] = fault.detail
    return details


def _missing_images(publication: Publication, captions: pd.DataFrame) -> dict[str, str]:
    """For each caption whose image is not in the image folder, by caption_id, its image's path; none without folder."""
    if publication.images is None:
        return {}
    missing = captions[captions["image"].map(publication.images.find).isna()]
    return dict(zip(missing["caption_id"], missing["image"], strict=True))


def keep_out(found: Survey, config: PublishConfig, say: Say) -> frozenset[str]:
    """The caption_ids to leave out. If the config does not allow it, RefusedError (leaks) or FileNotFoundError."""
    lines = []
    for what in ("image", "caption"):
        # Several captions may leak by one image, which is named once.
        names = sorted({leak.name for leak in found.leaks.values() if leak.what == what})
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
    """Measure how often the negatives can be guessed without the images, and refuse to publish those that can.

    Args:
        run: where measurements are kept.
        found: the survey, with the pairs of each operator.
        config: with the limit `max_blind`; `allow_blind`, or a format for training, publishes them all the same.
        say: called with what is published although it can be guessed, or could not be measured well.

    Raises:
        RefusedError: an operator's negatives can be guessed too often.
    """
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
        # An image has a row for each negative, but is copied once.
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
    # All shards of a table have the same metadata.
    first_shard = shards_of(publication.run, publication.table or "captions")[0]
    metadata = first_shard.read([]).schema.metadata or {}
    decoded = {key.decode(): value.decode() for key, value in sorted(metadata.items())}
    return {key: value for key, value in decoded.items() if key not in TECHNICAL}


def made_with(publication: Publication) -> dict[str, Json]:
    """The settings of each table of the build, by its name; `source`: size and SHA-256 of each file read, by name."""
    settings: dict[str, Json] = {}
    for name in STEPS:
        manifest = read_manifest(publication.run / name)
        if manifest is None:
            continue
        if name == "captions":
            settings["source"] = {**manifest.identity.inputs}
        # A refined run may also publish its unrefined negatives: then the settings of `refine` do not belong here.
        if manifest.identity.config and (name != "refined" or publication.table == "refined"):
            settings[name] = {**manifest.identity.config}
    settings["publish"] = {"seed": publication.config.seed, "per_operator": publication.per_operator}
    return settings


def digests(folder: Path, names: Sequence[str] = ()) -> tuple[File, ...]:
    """Path, size and SHA-256 of every file below a folder, or only of those in `names` if given."""
    paths = [folder / name for name in names] or files_below(folder)
    return tuple(File(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_file(path)) for path in paths)


def move_into_place(new: Path, output: Path) -> list[str]:
    """Move all files of the folder `new` to `output`, in place of what was published there; returns their paths in it.

    At any moment SHA256SUMS lists all files that are there, so that the next publication can remove what a killed one
    has left. Raises ValueError if a link in `output` would lead a file out of it.
    """
    written = [path.relative_to(new).as_posix() for path in files_below(new)]
    for name in written:
        if not (output / name).resolve().is_relative_to(output):
            raise ValueError(f"{output / name} leads out of the output folder: remove the link")
    old_folders = _remove_published(output)  # they may be empty now
    # The new list of digests comes first: if this stops in between, the next publication knows what to remove.
    for name in (SUMS, *(name for name in written if name != SUMS)):
        move(new / name, output / name)
    for folder in sorted(old_folders, reverse=True):  # those inside others first
        remove_empty(folder)
    return written


def _remove_published(output: Path) -> set[Path]:
    """Remove what an earlier publication has written: the files that SHA256SUMS lists, the card and Croissant.

    Returns:
        The folders that they were in, which may be empty now.
    """
    sums = output / SUMS
    if not sums.is_file():
        return set()
    listed = [line.partition("  ")[2] for line in sums.read_text(encoding="utf-8").splitlines()]
    folders = set[Path]()
    # SHA256SUMS does not list card and Croissant, which are written after it.
    for name in (*filter(None, listed), CARD, CROISSANT):
        file = output / name
        if file.is_file() and file.resolve().is_relative_to(output):
            file.unlink()
            folders |= {output / folder for folder in file.relative_to(output).parents if folder.name}
    return folders
