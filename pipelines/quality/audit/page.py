"""Audit a run: one self-contained HTML page, all texts of the run escaped, and a Parquet table of its numbers."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....augment.operators import operator_summary
from ....schemas.captions import LANGUAGE
from ....schemas.fields import check
from ....schemas.negatives import AUDIT, POSITIVE, REASONS
from ...engine.errors import require_libraries
from ...engine.lock import locked
from ...engine.manifest import read_manifest
from ...engine.progress import Progress
from ...engine.shards import PARQUET
from ...engine.storage import names, refuse_link, write_atomically
from ...engine.tables import has_table, no_table, package, read_table, shards_of
from ...features.preprocess import decode
from ...report.pages import page_environment, script
from ...report.rows import Row, summary
from ...report.summary import component_lines, corpus_lines
from ...tables.columns import column_filter, image_paths
from ...tables.images import Images
from ..bias.baselines import BlindReport, MostTelling, most_telling
from ..bias.measure import ALL, BlindConfig, Blindness, Unmeasured, measure_table
from ..strata import Stratum, sample_strata
from . import charts
from .figures import BINS, AuditConfig, Exchange, Figures, OperatorFigures, WordUse, collect, to_table

PAGE = "audit.html"
TABLE = "audit.parquet"
# A third as many refused candidates are shown for each reason as negatives for an operator.
REFUSED_SHARE = 3
# With so many pixels of the longer side and this quality of JPEG, a photo takes about 15 kB.
SIDE = 320
QUALITY = 72
SHOWN_EXCHANGES = 12  # of each operator
SHOWN_WORDS = 40  # of each operator


def audit(run: Path, output: Path, config: AuditConfig, progress: Progress) -> tuple[Path, Path]:
    """Write into the folder `output` the audit of a run: a page (HTML), the rows that its search reads (the folder
    `rows`), and all its numbers as a table (Parquet). The same run gives the same bytes.

    Returns:
        The paths of the page and of the table.

    Raises:
        FileNotFoundError: without a table.
        ValueError: for a missing column or unknown split.
        NotADirectoryError: if `output` is a file.
        ImportError: if photos need Pillow.
        DamagedShardError: for a shard that cannot be read.
    """
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"output must be a folder, was: {output}")
    figures = collect(run, config.splits)
    table = "refined" if config.refined else "negatives"
    if table not in figures.tables:
        raise no_table(run, table)
    blindness = _measure(run, config, figures, progress) if config.blind else {}
    manifest = read_manifest(run / table)
    provenance = manifest.identity.provenance() if manifest is not None else package()
    search = searched(run, config)
    html = _page(run, config, figures, blindness, provenance, search)
    numbers = to_table(figures, blindness)
    check(numbers, AUDIT)
    sink = pa.BufferOutputStream()
    schema = AUDIT.with_metadata({**(AUDIT.metadata or {}), **provenance})
    pq.write_table(numbers.cast(schema), sink, **PARQUET)
    # The rows are written before the page that reads them.
    with locked(output):
        write_files(search.files, output / FOLDER)
        write_atomically(output / PAGE, html.encode())
        write_atomically(output / TABLE, memoryview(sink.getvalue()))
    return output / PAGE, output / TABLE


def _measure(run: Path, config: AuditConfig, figures: Figures, progress: Progress) -> dict[str, Blindness]:
    """The blind accuracies of each table of negatives; without scikit-learn, the reason why there are none."""
    blindness: dict[str, Blindness] = {}
    for table in ("negatives", "refined"):
        operators = tuple(name for name in figures.families if name in figures.tables.get(table, ()))
        if not operators:
            continue
        blind_config = BlindConfig.of(vars(config), operators=operators, table=table, together=True)
        try:
            blindness[table] = measure_table(run, blind_config, progress)
        except ImportError as error:
            names = [*operators, ALL] if len(operators) > 1 else operators
            blindness[table] = Blindness({name: Unmeasured(str(error), 0) for name in names})
    return blindness


@dataclass(frozen=True)
class Section:
    """What the page shows of an operator.

    Attributes:
        name: of the operator.
        figures: what is counted of its rows in the table that the page shows.
        rows: a sample of them.
        reasons: the number of refused candidates by reason.
        refused: a sample of them by reason.
        number: of the section; this and the following fields only for operators that make negatives.
        says: a sentence on what the operator does.
        refined: what is counted of its refined rows, if there are any.
        plots: charts with their titles.
        words, exchanges: the first rows of `figures.uses` and `figures.exchanges`.
    """

    name: str
    figures: OperatorFigures
    rows: Sequence[Row]
    reasons: Mapping[str, int]
    refused: Mapping[str, Sequence[Row]]
    number: int = 0
    says: str = ""
    refined: OperatorFigures | None = None
    plots: Sequence[tuple[str, charts.Chart]] = ()
    words: Sequence[WordUse] = ()
    exchanges: Sequence[Exchange] = ()


def _page(
    run: Path,
    config: AuditConfig,
    figures: Figures,
    blindness: Mapping[str, Blindness],
    provenance: Mapping[str, str],
    search: Search,
) -> str:
    """The page as HTML, the same at any time, on any machine.

    Args:
        run: the folder of the run.
        config: what is shown.
        figures: the run's counts.
        blindness: by table, the blind accuracies.
        provenance: how the table that is shown was made.
        search: what can be searched.
    """
    table = "refined" if config.refined else "negatives"
    only = {"split": config.splits}
    refused_examples = -(-config.n // REFUSED_SHARE)  # of each reason; rounded up
    negatives = sample_strata(run, table, ["operator"], config.n, config.seed, only=only)
    refused = sample_strata(run, "rejections", ["operator", "reason"], refused_examples, config.seed, only=only)
    positives = sample_strata(run, "positives", ["operator"], config.n, config.seed, only=only)
    samples = chain(negatives.values(), refused.values(), positives.values())
    shown_images = {row["image_id"] for rows in samples for row in rows}
    captions = _captions_of(run, shown_images)
    photos = None if config.images is None else _photos_of(run, shown_images, config.images)

    def siblings(row: Row) -> list[str]:
        """The other captions of the image of a row."""
        return [text for caption_id, text in captions[row["image_id"]].items() if caption_id != row["caption_id"]]

    def section(name: str, of_table: str, rows: Mapping[Stratum, Sequence[Row]]) -> Section:
        """The section of an operator: its figures in a table, its sampled rows, and why candidates were refused."""
        reasons = figures.refused.get(name, {})
        return Section(
            name=name,
            figures=figures.tables.get(of_table, {}).get(name, OperatorFigures(figures.families[name])),
            rows=rows.get((name,), []),
            reasons=reasons,
            refused={reason: refused[name, reason] for reason in reasons if (name, reason) in refused},
        )

    sections: list[Section] = []
    # Operators whose sentences are true: a model must accept these.
    controls = {}
    for name, family in figures.families.items():
        if family != POSITIVE:
            of_negatives = section(name, table, negatives)
            refined = figures.tables.get("refined", {}).get(name)
            sections.append(replace(of_negatives, number=len(sections), says=operator_summary(name), refined=refined))
        if family == POSITIVE or name in figures.tables.get("positives", ()):
            controls[name] = section(name, "positives", positives)
    inline_script = script(__package__, "rows.js", "search.js")
    template = page_environment(__package__).get_template("page.html.jinja")
    return template.render(
        config=config,
        figures=figures,
        blindness=blindness,
        provenance=provenance,
        searched=search,
        script=inline_script.text,
        policy=inline_script.source,
        shown=table,
        all=ALL,
        sections=[_with_charts(of_operator) for of_operator in sections],
        controls=controls,
        siblings=siblings,
        photos=photos,
        missing=0 if photos is None else sum(photo is None for photo in photos.values()),
        reasons=figures.reasons,
        meaning=REASONS,
        facts=[*corpus_lines(run), *component_lines(run)],
        tiles=[tile for name, measured in blindness.items() for tile in tiles_of(name, measured)],
        accuracy=charts.accuracy,
        limits=charts.LIMITS,
        least_pairs=charts.LEAST_PAIRS,
        verdict=verdict_on(blindness),
    )


def _with_charts(section: Section) -> Section:
    """A section with its charts and lists of words; as it is if the table has no row of the operator."""
    figures = section.figures
    if not figures.rows:
        return section
    counts = figures.counts
    plots = [
        ("Length", charts.lengths(counts["words_caption"], counts["words_negative"])),
        ("Change of length", charts.added(counts["characters_added"])),
        ("Positions of the edits", charts.positions(counts["edit_position"], BINS)),
    ]
    chart_of_words = charts.words(figures.uses)
    if chart_of_words is not None:
        plots.append(("Words inserted ● and removed ○, by their count in the corpus", chart_of_words))
    words = figures.uses[:SHOWN_WORDS]
    return replace(section, plots=plots, words=words, exchanges=figures.exchanges[:SHOWN_EXCHANGES])


def _captions_of(run: Path, image_ids: Collection[str]) -> dict[str, dict[str, str]]:
    """By image_id, the English captions by caption_id."""
    captions: dict[str, dict[str, str]] = {image_id: {} for image_id in image_ids}
    wanted = pc.field("image_id").isin(pa.array(sorted(image_ids), pa.string()))
    for rows in read_table(run, "captions", ["caption_id", "image_id", "language", "text"]):
        for row in rows.filter(wanted & (pc.field("language") == LANGUAGE)).to_pylist():
            captions[row["image_id"]][row["caption_id"]] = row["text"]
    return captions


class Photo(TypedDict):
    """A photo as a data URI, and its size in pixels."""

    uri: str
    width: int
    height: int


def _photos_of(run: Path, image_ids: Collection[str], folder: Path) -> dict[str, Photo | None]:
    """By image_id, the photo in a folder, or None without one."""
    images = Images(folder)
    return {image_id: _photo(images, path) for image_id, path in image_paths(run, wanted=image_ids).items()}


def _photo(images: Images, path: str) -> Photo | None:
    """The image scaled down; None if it is not inside the folder or cannot be read."""
    require_libraries('photos on the page need Pillow: pip install "negcap[publish]"', "PIL")
    try:
        name = images.find(path)
        if name is None:
            return None
        image = decode(images.read(name))
    except (OSError, ValueError):
        return None
    image.thumbnail((SIDE, SIDE))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=QUALITY)
    uri = f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"
    return {"uri": uri, "width": image.width, "height": image.height}


class Tile(NamedTuple):
    """A box at the top of the page: an operator of a table, and the baseline that guesses its negatives best."""

    table: str
    operator: str
    telling: MostTelling


def tiles_of(table: str, blindness: Blindness) -> list[Tile]:
    """The tile of a table, for the operator whose negatives are guessed best; no tile if nothing was measured.

    Operators with too few pairs are left out, unless all have too few.
    """
    reports = blindness.reports
    enough = {name: report for name, report in reports.items() if report.pairs >= charts.LEAST_PAIRS}
    tiles = [Tile(table, name, most_telling(report.baselines)) for name, report in (enough or reports).items()]
    if not tiles:
        return []
    return [max(tiles, key=lambda tile: (tile.telling.cue.low, tile.telling.cue.percent))]


class RunVerdict(NamedTuple):
    """The verdict of an audit on how well text-only models recognize the negatives.

    kind: good, high or few, as the colours of the bars. headline: the verdict. facts: sentences behind it. advice: what
    to do. command: with which command, if there is one.
    """

    kind: str
    headline: str
    facts: Sequence[str]
    advice: str
    command: str = ""


def verdict_on(blindness: Mapping[str, Blindness]) -> RunVerdict:
    """The verdict on refined negatives if they are measured, else on all: whether a text-only model is surely better
    than the limit of `publish`, LIMITS[1], at telling negatives from captions.

    blindness: by table, the text-only accuracies.
    """
    refined = "refined" in blindness
    measured = blindness.get("refined", blindness.get("negatives", Blindness({})))
    reports = measured.reports
    if not reports:
        why = sorted({left.reason for left in measured.unmeasured.values()})
        headline = "It was not measured whether text-only models recognize the negatives"
        return RunVerdict("few", headline, why, "Measure it:", "negcap audit RUN")
    enough = {name: report for name, report in reports.items() if report.pairs >= charts.LEAST_PAIRS}
    few = [f"{name} ({report.pairs})" for name, report in reports.items() if name not in enough]
    best = {name: most_telling(report.baselines) for name, report in enough.items()}
    recognized = [name for name, guess in best.items() if guess.cue.low > charts.LIMITS[1]]
    # `all` is named only if no single operator is recognized.
    recognized = [name for name in recognized if name != ALL] or recognized

    facts = []
    for name in recognized:
        facts.append(
            f"{name}: right in {best[name].cue.percent:.1f} % of the pairs ({best[name].baseline}); 50 % is chance"
        )
    if enough and not recognized:
        shares = [accuracy.percent for report in enough.values() for accuracy in report.baselines.values()]
        facts.append(f"They are right in {min(shares):.1f} to {max(shares):.1f} % of the pairs; 50 % is chance")
    if refined:
        pairs = {table: sum(report.pairs for report in _of_operators(blindness[table])) for table in blindness}
        facts.append(f"{pairs['refined']:,} of {pairs['negatives']:,} pairs are left")
    if few:
        facts.append(f"Fewer than {charts.LEAST_PAIRS} pairs, too few to tell: {', '.join(few)}")

    who = "After negcap refine, text-only models" if refined else "Text-only models"
    if not enough:
        headline = f"No operator has the {charts.LEAST_PAIRS} pairs that a verdict needs"
        return RunVerdict("few", headline, facts, "Build from more captions")
    if recognized and refined:
        headline = f"{who} recognize the negatives of {_listed(recognized)}"
        return RunVerdict("high", headline, facts, "Publish only operators that are not recognized:", "--operator NAME")
    if recognized:
        headline = f"{who} recognize the negatives of {_listed(recognized)}"
        return RunVerdict("high", headline, facts, "Select negatives that they do not recognize:", "negcap refine RUN")
    of_whom = f" of {_listed([name for name in enough if name != ALL] or [*enough])}" if few else ""
    command = f"negcap publish RUN{' --refined' if refined else ''}"
    return RunVerdict("good", f"{who} do not recognize the negatives{of_whom}", facts, "Publish them:", command)


def _of_operators(blindness: Blindness) -> list[BlindReport | Unmeasured]:
    """What was measured of each operator, without the entry ALL for all of them together."""
    return [result for name, result in blindness.results.items() if name != ALL]


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence: `noun, verb and shuffle`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# The search reads scripts beside the page, since a page that is opened from a disk can read no other file. Each hands
# over compressed JSON: [image_id, captions as [caption_id, text], rows as [number of the caption, kind, *summary]].
FOLDER = "rows"
# Every script has at least so many rows, except the last.
PER_FILE = 20_000
REFINED = "refined"  # a table, and the kind of its rows in the search
# Tables whose rows can be found by the search.
SEARCHED_TABLES = ("negatives", "positives", "rejections")


class Search(NamedTuple):
    """The scripts that the search of a page reads, and the number of images in them."""

    files: Sequence[bytes]
    images: int


class SearchedImage(NamedTuple):
    """An image as it stands in a script: captions as [caption_id, text], rows as [number of the caption, kind, …]."""

    image_id: str
    captions: list[list[str]]
    rows: list[list[object]]


def searched(run: Path, config: AuditConfig) -> Search:
    """Make the scripts for the search: of all images, or of random ones with at most `config.search` rows together.

    The bytes do not depend on how the run is sharded.
    """
    chosen = _chosen_images(run, config)
    refined = set[str]()
    if chosen and has_table(run, REFINED):
        for ids in read_table(run, REFINED, ["negative_id"]):
            refined.update(ids["negative_id"].to_pylist())
    files = list[bytes]()
    waiting = list[SearchedImage]()
    rows_waiting = 0
    images = 0
    for image in _searched_images(run, config.splits, chosen, refined):
        if rows_waiting >= PER_FILE:
            files.append(_pack_into_script(waiting))
            waiting = []
            rows_waiting = 0
        waiting.append(image)
        rows_waiting += len(image.rows)
        images += 1
    if waiting:
        files.append(_pack_into_script(waiting))
    return Search(files, images)


def _pack_into_script(images: Sequence[SearchedImage]) -> bytes:
    """The images as a script that hands them to the page: `unpack("…")` of their compressed JSON in base64."""
    data = json.dumps(images, ensure_ascii=False, separators=(",", ":")).encode()
    return b'unpack("%b");\n' % base64.b64encode(zlib.compress(data))


def write_files(files: Sequence[bytes], folder: Path) -> None:
    """Write the data files of a page, 00000.js and so on, into a folder, and delete those that an earlier page left.

    The folder is made if it is missing; other files in it stay.
    """
    refuse_link(folder).mkdir(parents=True, exist_ok=True)
    written = {f"{number:05}.js": data for number, data in enumerate(files)}
    for name, data in written.items():
        write_atomically(folder / name, data)
    for name in names(folder):
        if re.fullmatch(r"\d{5}\.js", name) and name not in written:
            (folder / name).unlink()


def _chosen_images(run: Path, config: AuditConfig) -> set[str]:
    """The image_ids of the images to search: all, or random ones that have at most `config.search` rows together."""
    rows_of_image = Counter[str]()
    for table in ("captions", *SEARCHED_TABLES):
        if not has_table(run, table):
            continue
        for part in read_table(run, table, ["image_id", "split"]):
            images = part.filter(column_filter({"split": config.splits}))["image_id"]
            for entry in images.value_counts().to_pylist():
                # Captions are not counted as rows, but an image without rows can be found, too.
                rows_of_image[entry["values"]] += 0 if table == "captions" else entry["counts"]

    def random_place(image_id: str) -> bytes:
        """A hash by which images are sorted, so that their order is random and the same in every call."""
        return blake2b(f"{config.seed}\x1f{image_id}".encode()).digest()

    rows_left = config.search  # a number of rows
    chosen = set[str]()
    for image_id in sorted(rows_of_image, key=random_place):
        rows_left -= rows_of_image[image_id]
        if rows_left < 0:
            break
        chosen.add(image_id)
    return chosen


def _searched_images(run: Path, splits: Sequence[str], chosen: set[str], refined: set[str]) -> Iterator[SearchedImage]:
    """The images that can be searched, with their captions and rows, in the order of the captions.

    splits, chosen: only images of these splits, with these image_ids. refined: the negative_ids of refined negatives.
    """
    if not chosen:
        return
    wanted = column_filter({"split": splits, "image_id": sorted(chosen)})
    # Rows of an image stand in the file of the same name as its captions: shards["negatives"]["00003.parquet"].
    shards = {}
    for table in SEARCHED_TABLES:
        if has_table(run, table):
            shards[table] = {shard.path.name: shard for shard in shards_of(run, table)}
    for captions_shard in shards_of(run, "captions"):
        name = captions_shard.path.name
        images: dict[str, SearchedImage] = {}
        number_of_caption: dict[str, int] = {}  # among those of its image
        captions = captions_shard.read(["caption_id", "image_id", "split", "language", "text"])
        for row in captions.filter(wanted & (pc.field("language") == LANGUAGE)).to_pylist():
            image = images.setdefault(row["image_id"], SearchedImage(row["image_id"], [], []))
            number_of_caption[row["caption_id"]] = len(image.captions)
            image.captions.append([row["caption_id"], row["text"]])
        for table, shard_of_name in shards.items():
            if name not in shard_of_name:
                continue
            for row in shard_of_name[name].read().filter(wanted).to_pylist():
                kind = row.get("reason") or (REFINED if row.get("negative_id") in refined else table)
                row_in_script = [number_of_caption[row["caption_id"]], kind, *summary(row)]
                images[row["image_id"]].rows.append(row_in_script)
        yield from images.values()
