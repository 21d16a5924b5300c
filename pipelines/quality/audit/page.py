"""Audit a run: one self-contained HTML page, all texts of the run escaped, and a Parquet table of its numbers."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....augment.operators import does
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
from ...report.rows import summary
from ...report.summary import component_lines, corpus_lines
from ...tables.columns import column_filter
from ...tables.images import Images
from ..accuracy import Accuracy
from ..bias.baselines import most_telling
from ..bias.measure import ALL, BlindConfig, Blindness, Unmeasured, measure_table
from ..strata import Row, sample_strata
from . import charts
from .figures import BINS, AuditConfig, Figures, Made, collect, to_table

PAGE = "audit.html"
TABLE = "audit.parquet"
REFUSED_SHARE = 3  # per reason, a third as many refused candidates are shown as negatives
SIDE = 320
QUALITY = 72  # pixels of the longer side, JPEG quality: about 15 kB per photo
SHOWN = {"exchanges": 12, "words": 40}  # of each operator


def audit(run: Path, output: Path, config: AuditConfig, progress: Progress) -> tuple[Path, Path]:
    """Write the audit page (HTML), table (Parquet) and what is searched (`rows`) of a run into the folder `output`;
    returns the paths of the first two. The same run gives the same bytes. Raises FileNotFoundError without a table,
    ValueError for a missing column or unknown split, NotADirectoryError, ImportError if photos need Pillow,
    DamagedShardError.
    """
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"output must be a folder, was: {output}")
    figures = collect(run, config.splits)
    table = "refined" if config.refined else "negatives"
    if table not in figures.made:
        raise no_table(run, table)
    blindness: dict[str, Blindness] = {}
    for name in ("negatives", "refined") if config.blind else ():
        operators = tuple(operator for operator in figures.families if operator in figures.made.get(name, ()))
        if operators:
            how = BlindConfig.of(vars(config), operators=operators, table=name, together=True)
            try:
                blindness[name] = measure_table(run, how, progress)
            except ImportError as error:
                all_of_them = (*operators, *([ALL] if len(operators) > 1 else []))
                blindness[name] = Blindness({operator: Unmeasured(str(error), 0) for operator in all_of_them})
    manifest = read_manifest(run / table)
    provenance = manifest.identity.provenance() if manifest is not None else package()
    data = searched(run, config)
    html = _page(run, config, figures, table, blindness=blindness, provenance=provenance, searched=data)
    numbers = to_table(figures, blindness)
    sink = pa.BufferOutputStream()
    check(numbers, AUDIT)
    pq.write_table(numbers.cast(AUDIT.with_metadata({**(AUDIT.metadata or {}), **provenance})), sink, **PARQUET)
    with locked(output):
        write_files(data["files"], output / FOLDER)
        write_atomically(output / PAGE, html.encode())
        write_atomically(output / TABLE, memoryview(sink.getvalue()))
    return output / PAGE, output / TABLE


def _page(run: Path, config: AuditConfig, figures: Figures, table: str, **given: Any) -> str:
    """The page as HTML, the same at any time, on any machine. table: whose rows are shown; given: for the template."""
    only = {"split": config.splits}
    few = -(-config.n // REFUSED_SHARE)
    made = sample_strata(run, table, ["operator"], config.n, config.seed, only=only)
    refused = sample_strata(run, "rejections", ["operator", "reason"], few, config.seed, only=only)
    positives = sample_strata(run, "positives", ["operator"], config.n, config.seed, only=only)
    shown = chain.from_iterable(rows for strata in (made, refused, positives) for rows in strata.values())
    captions, photos = _beside(run, {row["image_id"] for row in shown}, config.images)

    def siblings(row: Row) -> list[str]:
        return [text for caption_id, text in captions[row["image_id"]].items() if caption_id != row["caption_id"]]

    def section(name: str, of_table: str, rows: Mapping[tuple[str, ...], list[Row]]) -> dict[str, Any]:
        """What the page shows of any operator; reasons, refused: the number of refused candidates, and a sample."""
        counts = figures.refused.get(name, {})
        family = figures.families[name]
        sample = {reason: refused[name, reason] for reason in counts if (name, reason) in refused}
        own = figures.made.get(of_table, {}).get(name, Made(family))
        return {"name": name, "made": own, "rows": rows.get((name,), []), "reasons": counts, "refused": sample}

    negative = [name for name, family in figures.families.items() if family != POSITIVE]
    sections = []
    for number, name in enumerate(negative):
        one = section(name, table, made) | {"number": number, "says": does(name)}
        one |= {"refined": figures.made.get("refined", {}).get(name), "plots": _plots(one["made"])}
        for what, frame in (("words", one["made"].uses), ("exchanges", one["made"].exchanges)):
            one[what] = () if frame is None else [*frame[: SHOWN[what]].itertuples(index=False)]
        sections.append(one)
    controls = {
        name: section(name, "positives", positives)
        for name in figures.families
        if name not in negative or name in figures.made.get("positives", ())
    }
    only_line = [f"what follows is of the split {' and '.join(config.splits)} only"] if config.splits else []
    code, policy = script(__package__, "rows.js", "search.js")
    given |= {"config": config, "script": code, "policy": policy, "figures": figures, "shown": table, "all": ALL}
    given |= {"controls": controls, "sections": sections, "siblings": siblings, "photos": photos}
    given |= {"reasons": figures.reasons, "meaning": REASONS}
    given["facts"] = [*corpus_lines(run), *component_lines(run), *only_line]
    given["missing"] = 0 if photos is None else sum(photo is None for photo in photos.values())
    given["tiles"] = [(name, *most) for name, found in given["blindness"].items() if (most := most_guessed(found))]
    page = page_environment(__package__).get_template("page.html.jinja")
    return page.render(given, accuracy=charts.accuracy, limits=charts.LIMITS)


def _plots(made: Made) -> list[tuple[str, charts.Chart]]:
    if made.uses is None:
        return []
    counts = made.counts
    plots = [
        ("Length", charts.lengths(counts["words_caption"], counts["words_negative"])),
        ("Change of length", charts.added(counts["characters_added"])),
        ("Positions of the edits", charts.positions(counts["edit_position"], BINS)),
    ]
    drawn = charts.words(made.uses)
    return [*plots, ("Words put in ● and taken out ○, by their count in the corpus", drawn)] if drawn else plots


def _beside(
    run: Path, wanted: Iterable[str], folder: Path | None
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, Any] | None] | None]:
    """By image_id of those wanted, English captions by caption_id; and photos, None without a file, or no `folder`."""
    captions: dict[str, dict[str, str]] = {image_id: {} for image_id in wanted}
    paths: dict[str, str] = {}
    of_wanted = pc.field("image_id").isin(pa.array(sorted(captions), pa.string()))
    for rows in read_table(run, "captions", ["caption_id", "image_id", "image", "language", "text"]):
        for row in rows.filter(of_wanted).to_pylist():
            paths[row["image_id"]] = row["image"]
            if row["language"] == LANGUAGE:
                captions[row["image_id"]][row["caption_id"]] = row["text"]
    if folder is None:
        return captions, None
    images = Images(folder)
    return captions, {image_id: _photo(images, path) for image_id, path in paths.items()}


def _photo(images: Images, path: str) -> dict[str, Any] | None:
    """The image scaled down; None if it is not inside the folder or cannot be read."""
    require_libraries('photos on the page need Pillow: pip install "negcap[publish]"', "PIL")
    try:
        if (name := images.find(path)) is None:
            return None
        image = decode(images.read(name))
    except (OSError, ValueError):
        return None
    image.thumbnail((SIDE, SIDE))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=QUALITY)
    uri = f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"
    return {"uri": uri, "width": image.width, "height": image.height}


def most_guessed(blindness: Blindness) -> tuple[str, str, Accuracy] | None:
    """The operator that is guessed best, by which baseline, and how often (see `most_telling`); None without any."""
    found = ((name, *most_telling(report.baselines)) for name, report in blindness.reports.items())
    return max(found, key=lambda one: (one[2].low, one[2].percent), default=None)


# The search reads scripts beside the page, since a page that is opened from a disk can read no other file. Each hands
# over compressed JSON: [image_id, captions as [caption_id, text], rows as [number of the caption, kind, *summary]].
FOLDER = "rows"
PER_FILE = 20_000  # rows, at least, of all files but the last
REFINED = "refined"
HELD = ("negatives", "positives", "rejections")


def searched(run: Path, config: AuditConfig) -> dict[str, Any]:
    """The `files` for the search, whole images, random ones if above `config.search` rows, and the number of `images`.
    The bytes do not depend on how the run is sharded.
    """
    chosen = _chosen(run, config)
    refined = set[str]()
    for ids in read_table(run, REFINED, ["negative_id"]) if chosen and has_table(run, REFINED) else ():
        refined.update(ids["negative_id"].to_pylist())
    files = list[bytes]()
    held = list[Any]()
    rows = 0
    images = 0
    for image in chain(_images(run, config.splits, chosen, refined), [None]):
        if held and (image is None or rows >= PER_FILE):
            data = json.dumps(held, ensure_ascii=False, separators=(",", ":")).encode()
            files.append(b'unpack("%b");\n' % base64.b64encode(zlib.compress(data)))
            held = []
            rows = 0
        if image is not None:
            held.append(image)
            rows = rows + len(image[2])
            images = images + 1
    return {"files": files, "images": images}


def write_files(files: Sequence[bytes], folder: Path) -> None:
    """Write them into a folder, which has no others of this kind afterwards."""
    refuse_link(folder).mkdir(parents=True, exist_ok=True)
    written = {f"{number:05}.js": data for number, data in enumerate(files)}
    for name, data in written.items():
        write_atomically(folder / name, data)
    for name in names(folder):
        if re.fullmatch(r"\d{5}\.js", name) and name not in written:
            (folder / name).unlink()


def _chosen(run: Path, config: AuditConfig) -> set[str]:
    """The image_ids of the images to show: all, or random ones that have at most `config.search` rows."""
    counts: dict[str, int] = {}
    for table in ("captions", *HELD):
        for part in read_table(run, table, ["image_id", "split"]) if has_table(run, table) else ():
            for one in part.filter(column_filter({"split": config.splits}))["image_id"].value_counts().to_pylist():
                counts[one["values"]] = counts.get(one["values"], 0) + one["counts"] * (table != "captions")
    left = config.search
    chosen = set[str]()
    for image_id in sorted(counts, key=lambda name: blake2b(f"{config.seed}\x1f{name}".encode()).digest()):
        left -= counts[image_id]
        if left < 0:
            break
        chosen.add(image_id)
    return chosen


def _images(run: Path, splits: Sequence[str], chosen: set[str], refined: set[str]) -> Iterator[tuple[Any, ...]]:
    """The chosen images in the order of the captions, each as it stands in a file."""
    shards = {table: {one.path.name: one for one in shards_of(run, table)} for table in HELD if has_table(run, table)}
    for owner in shards_of(run, "captions") if chosen else ():
        images: dict[str, tuple[str, list[list[str]], list[list[Any]]]] = {}
        number: dict[str, int] = {}
        for row in _of(owner.read(["caption_id", "image_id", "split", "language", "text"]), splits, chosen):
            if row["language"] == LANGUAGE:
                captions = images.setdefault(row["image_id"], (row["image_id"], [], []))[1]
                number[row["caption_id"]] = len(captions)
                captions.append([row["caption_id"], row["text"]])
        for table, of_table in shards.items():
            for row in _of(of_table[owner.path.name].read(), splits, chosen) if owner.path.name in of_table else ():
                kind = row.get("reason") or (REFINED if row.get("negative_id") in refined else table)
                images[row["image_id"]][2].append([number[row["caption_id"]], kind, *summary(row)])
        yield from images.values()


def _of(rows: pa.Table, splits: Sequence[str], chosen: set[str]) -> list[dict[str, Any]]:
    return rows.filter(column_filter({"split": splits, "image_id": sorted(chosen)})).to_pylist()
