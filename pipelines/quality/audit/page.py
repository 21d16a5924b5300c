"""The HTML page of an audit, from a template: all texts of the run are escaped; no scripts, no external resources."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ....schemas.captions import LANGUAGE
from ....schemas.negatives import POSITIVE
from ...engine.tables import Shard, shards_of
from ...report.rows import change, pieces, visible
from ...report.summary import percent
from ...tables.columns import read_columns
from ...tables.images import Images
from ..bias import ALL, Accuracy, Blindness, BlindReport, most_telling
from ..bias.report import FIXED
from ..strata import Row, Stratum
from . import charts
from .figures import BINS, AuditConfig, Figures, Made, Use, Word, exchanges, uses

SIDE, QUALITY = 320, 72  # pixels of the longer side, JPEG quality: about 15 kB per photo


class Photo(NamedTuple):
    """A scaled-down image as a `data:` URI, which embeds it in the page, and its size in pixels."""

    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class Context:
    """The captions and photos of some images.

    captions: by image_id, the English captions as (caption_id, text); photos: by image_id, for readable image files;
    images: whether photos were requested; missing: number of images without a photo.
    """

    captions: Mapping[str, list[tuple[str, str]]] = field(default_factory=dict)
    photos: Mapping[str, Photo] = field(default_factory=dict)
    images: bool = False
    missing: int = 0

    def siblings(self, row: Row) -> list[str]:
        """The texts of the other captions of a row's image."""
        return [text for caption_id, text in self.captions.get(row["image_id"], ()) if caption_id != row["caption_id"]]

    def photo(self, row: Row) -> Photo | None:
        """The photo of a row's image; None if it has none."""
        return self.photos.get(row["image_id"])


def read_context(run: Path, rows: Iterable[Row], folder: Path | None = None) -> Context:
    """Read the captions of the rows' images, and their photos from an image folder (None: no photos).

    Only files inside the folder are read (see `Images.find`). Raises FileNotFoundError if the folder does not exist,
    ImportError without Pillow, ValueError for a missing column, DamagedShardError for a shard that is not as recorded.
    """
    wanted = {row["image_id"] for row in rows}
    captions: dict[str, list[tuple[str, str]]] = {}
    paths: dict[str, str] = {}
    for shard in shards_of(run, "captions"):
        for row in _of_images(shard, wanted):
            paths[row["image_id"]] = row["image"]
            if row["language"] == LANGUAGE:
                captions.setdefault(row["image_id"], []).append((row["caption_id"], row["text"]))
    if folder is None:
        return Context(captions)
    images = Images(folder)
    found = {image_id: _photo(images, path) for image_id, path in paths.items()}
    photos = {image_id: photo for image_id, photo in found.items() if photo is not None}
    return Context(captions, photos, True, len(wanted) - len(photos))


def _of_images(shard: Shard, wanted: set[str]) -> list[Row]:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = read_columns(shard, ["caption_id", "image_id", "image", "language", "text"])
    return rows.filter(pc.is_in(rows["image_id"], pa.array(sorted(wanted), pa.string()))).to_pylist()


def _photo(images: Images, path: str) -> Photo | None:
    """The image scaled down; None if it is not inside the folder or cannot be read."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError('photos on the page need Pillow: pip install "negcap[publish]"') from error
    try:
        name = images.find(path)
        if name is None:
            return None
        with Image.open(io.BytesIO(images.read(name))) as file:
            image = ImageOps.exif_transpose(file).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    image.thumbnail((SIDE, SIDE))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=QUALITY)
    return Photo(f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}", *image.size)


TOP = 12
WORDS = 40
REASONS = {
    "related_in_caption": "the new word is a synonym, hypernym or hyponym (WordNet) of a noun of the caption",
    "related_in_sibling": "the new word is a synonym, hypernym or hyponym of a noun of another caption of the image",
    "overlap_in_caption": "the new word may name the same thing as a noun of the caption",
    "overlap_in_sibling": "the new word may name the same thing as a noun of another caption of the image",
    "same_quantity": "both quantities mean the same",
    "sibling_quantity": "another caption of the image gives the new quantity",
    "preposition_overlap": "both prepositions can hold at the same time",
    "interchangeable": "the exchange does not change the meaning",
    "dangling_pronoun": "a pronoun would lose the word it refers to",
    "ungrammatical": "the sentence around the change cannot be made grammatical",
    "unchanged": "the text would stay the same",
    "caption_says_so": "it is true according to the caption itself",
    "sibling_says_so": "it is true according to another caption of the image",
    "likely_true": "it is too likely to be true, given the image's captions",
    "implausible": "it is much less likely as a caption than the caption it is made of",
    "repeated": "the caption has the same negative already",
    "too_long": "the caption, or a negative that others wrote, is too long to be parsed",
    "operator_error": "the operator failed on the caption, which is a fault of the operator",
}


class Samples(NamedTuple):
    """Rows to show: negatives by operator, refused candidates by (operator, reason), positive controls by operator."""

    made: Mapping[str, Sequence[Row]]
    refused: Mapping[Stratum, Sequence[Row]]
    positives: Mapping[str, Sequence[Row]]

    @property
    def rows(self) -> list[Row]:
        """The negatives, refused candidates and positive controls together."""
        return list(chain.from_iterable(rows for some in self for rows in some.values()))


@dataclass(frozen=True)
class Content:
    """The data that the page shows.

    blindness: by table; corpus: counts of the lexicon's words; facts: opening lines; table: "negatives" or "refined",
    the one whose rows and plots are shown; provenance: of that table.
    """

    figures: Figures
    blindness: Mapping[str, Blindness]
    corpus: Mapping[Word, int]
    samples: Samples
    context: Context
    facts: Sequence[str]
    provenance: Mapping[str, str]
    table: str
    config: AuditConfig


@dataclass(frozen=True)
class Section:
    """What the page shows of one operator; `number` identifies it in the style sheet.

    rows: a sample of them; refused: of its refused candidates by reason, the most frequent first; reasons: the number
    of all by reason. Only of operators that make negatives: says: the first sentence of the operator's docstring;
    refined: its counts in that table; reports: its blind report by table; plots: titles and charts; words, exchanges:
    the most frequent ones.
    """

    name: str
    made: Made
    rows: Sequence[Row]
    refused: Mapping[str, Sequence[Row]]
    reasons: Mapping[str, int]
    number: int = 0
    says: str = ""
    refined: Made | None = None
    reports: Mapping[str, BlindReport] = field(default_factory=dict)
    plots: Sequence[tuple[str, charts.Chart]] = ()
    words: Sequence[Use] = ()
    exchanges: Sequence[tuple[str, str, int, int]] = ()

    @property
    def family(self) -> str:
        """The family of the operator."""
        return self.made.family


def page(content: Content) -> str:
    """The page as HTML. It depends only on `content`, not on the time or machine."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: files(__package__).joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"count": "{:,}".format, "percent": percent, "spoken": spoken, "change": change}
    environment.globals |= {"pieces": pieces, "accuracy": charts.accuracy}
    return environment.get_template("page.html.jinja").render(
        **vars(content),
        sections=sections(content),
        controls=controls(content),
        reasons=content.figures.reasons,
        meaning=REASONS,
        shown=content.table,
        tiles=[(table, *told) for table, found in content.blindness.items() if (told := most_guessed(found))],
        all=ALL,
        limits=charts.LIMITS,
        fixed=FIXED,
    )


def sections(content: Content) -> list[Section]:
    """One section per operator that makes negatives."""
    figures, found = content.figures, list[Section]()
    for name, family in figures.families.items():
        if family == POSITIVE:
            continue
        made = figures.made[content.table].get(name, Made(family))
        plots = []
        if made.captions:
            counts = made.counts
            plots = [
                ("Length", charts.lengths(counts["words_caption"], counts["words_negative"])),
                ("Change of length", charts.added(counts["characters_added"])),
                ("Positions of the edits", charts.positions(counts["edit_position"], BINS)),
            ]
        used = uses(made, content.corpus)
        drawn = charts.words(used)
        if drawn is not None:
            plots.append(("Words put in ● and taken out ○, by their count in the corpus", drawn))
        section = Section(
            *(name, made, content.samples.made.get(name, ()), *_refused(content, name)),
            number=len(found),
            says=description(name),
            refined=figures.made.get("refined", {}).get(name),
            reports={table: b.reports[name] for table, b in content.blindness.items() if name in b.reports},
            plots=plots,
            words=used[:WORDS],
            exchanges=exchanges(made, TOP),
        )
        found.append(section)
    return found


def controls(content: Content) -> dict[str, Section]:
    """By operator that makes positives, what the page shows of it."""
    figures, samples = content.figures, content.samples
    made = figures.made.get("positives", {})
    return {
        name: Section(name, made.get(name, Made(POSITIVE)), samples.positives.get(name, ()), *_refused(content, name))
        for name, family in figures.families.items()
        if family == POSITIVE or name in made
    }


def _refused(content: Content, operator: str) -> tuple[dict[str, Sequence[Row]], Mapping[str, int]]:
    """A sample of an operator's refused candidates by reason, the most frequent first, and how many there are."""
    counts = content.figures.refused.get(operator, {})
    found = content.samples.refused
    return {reason: found[operator, reason] for reason in counts if (operator, reason) in found}, counts


def description(operator: str) -> str:
    """The first sentence of an operator's docstring; empty for an unknown operator."""
    from ....augment.operators import OPERATORS

    said = (OPERATORS[operator].propose.__doc__ or "") if operator in OPERATORS else ""
    return " ".join(said.split("\n\n")[0].split())


def most_guessed(blindness: Blindness) -> tuple[str, str, Accuracy] | None:
    """The operator that is guessed best, by which baseline, and how often; None if nothing was measured.

    As `publish` decides: by the lower bound of the 95 % interval (see `most_telling`).
    """
    found = [(name, *most_telling(report)) for name, report in blindness.reports.items()]
    if not found:
        return None
    name, baseline, accuracy, turned = max(found, key=lambda one: (one[2].low, one[2].percent))
    return name, f"{baseline}, reversed" if turned else baseline, accuracy


def spoken(reason: Any) -> str:
    """A reason code in words: `sibling_says_so` -> `sibling says so`."""
    return str(reason).replace("_", " ")
