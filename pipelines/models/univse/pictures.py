"""Pictures of a trained model: relevance maps over photos, and its words in the plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from negcap.pipelines.engine.manifest import manifest_of
from negcap.pipelines.features.preprocess import Crops
from negcap.pipelines.models.checkpoint import load_model
from negcap.pipelines.models.components import lookup, read_rows, read_whole
from negcap.pipelines.models.data import Captions, read_captions, read_features
from negcap.pipelines.models.texts import UNKNOWN_ID
from negcap.pipelines.models.trainer.unified import Phrase
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.univse.neighbours import draw_plane
from negcap.pipelines.models.univse.relevance import draw_maps, read_query, relevance
from negcap.pipelines.models.vocabulary import Vocabulary
from negcap.pipelines.tables.images import Images

MAPS, PLANE = "relevance.png", "neighbours.png"
COMMON = 3  # of each level, where no query is given


@dataclass(frozen=True)
class PictureConfig:
    """What is drawn: maps of these queries (none: what the photos' captions say most), `best` photos each.

    spacy_model: the pipeline that reads the queries; seed: of t-SNE. Raises ValueError.
    """

    queries: tuple[str, ...] = ()
    best: int = 6
    spacy_model: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.best < 1:
            raise ValueError(f"best must be >= 1, was: {self.best}")


def draw_pictures(
    model_folder: Path, run: Path, photos: Path | None, output: Path, config: PictureConfig
) -> list[Path]:
    """Draw neighbours.png and, with a folder of photos of the run's images, relevance.png; the files written.

    Raises FileNotFoundError or ValueError for a model that is not UniVSE's, tables or photos that are missing, or a
    query that cannot be read.
    """
    cpu = torch.device("cpu")
    model, vocabulary, told = load_model(model_folder, cpu)
    if not isinstance(model, UniVSE):
        raise ValueError(f"pictures are of a univse model, {model_folder} is: {told.model}")
    output.mkdir(parents=True, exist_ok=True)
    draw_plane(model, vocabulary, read_whole(run, "component_vocabulary"), output / PLANE, config.seed)
    if photos is None:
        return [output / PLANE]
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, told.table)
    files = {image: file for image, file in _found(run, photos).items() if bool(features.there[image])}
    if not files:
        raise FileNotFoundError(f"{photos} must have photos of images with features in {run}, has none")
    queries: Sequence[Phrase] = [read_query(text, config.spacy_model) for text in config.queries]
    queries = queries or _common(run, captions, set(files), vocabulary)
    with torch.inference_mode():
        _, regions = model.image.with_regions(features.values[torch.tensor(list(files))])
        rows = relevance(model, vocabulary, queries, regions, list(files.values()), config.best)
    draw_maps(rows, output / MAPS, _crop(run, told.table))
    return [output / MAPS, output / PLANE]


def _found(run: Path, photos: Path) -> dict[int, Path]:
    """The photo of each image, by its number in the run."""
    folder, files = Images(photos), {}
    rows = read_whole(run, "captions")
    numbers = {image: n for n, image in enumerate(read_captions(run).image_ids)}
    for image, name in dict(zip(rows["image_id"].to_pylist(), rows["image"].to_pylist(), strict=True)).items():
        file = folder.find(name)
        if file is not None and image in numbers:
            files[numbers[image]] = photos / file
    return files


def _crop(run: Path, table: str) -> Crops | None:
    """What a grid's regions show of a photo, where negcap made them of photos; None: as far as one knows, all of it."""
    manifest = manifest_of(run, table)
    made = manifest.identity.config if manifest else {}
    return Crops(made["resize"], made["crop"]) if made.get("grid") else None


def _common(run: Path, captions: Captions, images: set[int], vocabulary: Vocabulary) -> Sequence[Phrase]:
    """The objects, attributed objects and triples that captions of these images say most, of words the model knows.

    Raises ValueError where there are none.
    """
    ids = [caption for caption, image in zip(captions.ids, captions.image.tolist(), strict=True) if image in images]
    rows = read_rows(run, "components", ids)
    made = []
    for column, names in (
        ("objects", ("object",)),
        ("attributes", ("attribute", "object")),
        ("relations", ("subject", "relation", "object")),
    ):
        counts = Counter(tuple(item[name] for name in names) for items in rows[column].to_pylist() for item in items)
        known = (words for words, _ in counts.most_common() if UNKNOWN_ID not in lookup(vocabulary, words))
        made += [Phrase(words, " ".join(words)) for words in islice(known, COMMON)]
    if not made:
        raise ValueError("the captions of these photos must say something that the model knows: ask for it by query")
    return made
