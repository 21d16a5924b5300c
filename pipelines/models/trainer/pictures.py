"""Figures of a trained model: UniVSE's relevance maps and word vectors, MHA-D's attention and joint space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from ...engine.manifest import manifest_of
from ...features.preprocess import Crops
from ...tables.images import Images
from ..captions import Captions, read_captions
from ..checkpoint import read_vocabularies
from ..config import TrainConfig
from ..corpus import PARTS, component_ids, encode_run, read_caption_rows, read_whole_table
from ..features import read_features
from ..mhad.model import MultiHeadAttention
from ..mhad.pictures import draw_attention, draw_views, find_attention
from ..univse.model import Photos, UniVSE, cropped, draw_maps, find_relevance, read_query
from ..univse.parsing import draw_neighbours
from ..vectors import Phrase, Texts
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from .objectives import load_model

MAPS, NEIGHBOURS, HEADS, VIEWS = "relevance.png", "neighbours.png", "heads.png", "views.png"
IN_THE_PLANE = 200  # images
COMMON = 3  # default queries per kind of component


@dataclass(frozen=True)
class PictureConfig:
    """What is drawn. Raises ValueError for best < 1.

    queries: the phrases to look for; empty: the most frequent components of the photos' captions. best: the number of
    photos per query, or of images whose attention is drawn. spacy_model: the pipeline that parses the queries; None:
    the one shipped with negcap. seed: of
    t-SNE.
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
    """Draw the figures of a UniVSE or MHA-D model; returns the files written.

    UniVSE: neighbours.png and, if `photos` is the folder of the run's photos, relevance.png. MHA-D: heads.png, on the
    photos if they are given, and views.png. Raises FileNotFoundError or ValueError for another model, for missing
    tables or photos, or for a query without a known object.
    """
    cpu = torch.device("cpu")
    model, vocabulary, trained = load_model(model_folder, cpu)
    if isinstance(model, MultiHeadAttention):
        vocabularies = {trained.languages[0]: vocabulary}
        vocabularies |= read_vocabularies(model_folder, trained.languages[1:])
        return _draw_heads(model, vocabularies, run, trained, photos, output, config)
    if not isinstance(model, UniVSE):
        raise ValueError(f"pictures need a univse or mha-d model, {model_folder} is: {trained.model}")
    output.mkdir(parents=True, exist_ok=True)
    components = read_whole_table(run, "component_vocabulary")
    draw_neighbours(model, vocabulary, components, output / NEIGHBOURS, config.seed)
    if photos is None:
        return [output / NEIGHBOURS]
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, trained.table)
    files = {image: file for image, file in photo_files(run, photos).items() if bool(features.available[image])}
    if not files:
        raise FileNotFoundError(f"{photos} must have photos of images with features in {run}, has none")
    queries: Sequence[Phrase] = [read_query(text, config.spacy_model) for text in config.queries]
    queries = queries or common_phrases(run, captions, set(files), vocabulary)
    with torch.inference_mode():
        _, regions = model.image.with_regions(features.values[torch.tensor(list(files))])
        rows = find_relevance(model, vocabulary, queries, Photos(list(files.values()), regions), config.best)
    draw_maps(rows, output / MAPS, _crop(run, trained.table))
    return [output / MAPS, output / NEIGHBOURS]


def _draw_heads(
    model: MultiHeadAttention,
    vocabularies: Mapping[str, WordVocabulary],
    run: Path,
    trained: TrainConfig,
    photos: Path | None,
    output: Path,
    config: PictureConfig,
) -> list[Path]:
    """Draw heads.png, of the first images with a photo, and views.png, of images that the model was not trained on."""
    captions = read_captions(run, languages=trained.languages)
    features = read_features(run, captions.image_ids, trained.table)
    first, *others = vocabularies.values()
    corpus = encode_run(run, captions, first, others=dict(zip(trained.languages[1:], others, strict=True)))
    texts = Texts(corpus.tokens, corpus.offsets, corpus.captions, None, corpus.language)
    of_image: dict[int, dict[str, int]] = {}  # the first caption of an image in each language
    seen = set(captions.of_splits(trained.train_splits).tolist())
    rows = [row for row in range(len(captions.ids)) if row not in seen] or list(range(len(captions.ids)))
    for row in rows:
        image = int(captions.image[row])
        if bool(features.available[image]):
            of_image.setdefault(image, {}).setdefault(trained.languages[int(captions.language[row])], row)
    whole = {image: its for image, its in of_image.items() if len(its) == len(trained.languages)}
    if not whole:
        raise ValueError(f"{run} must have images with features and captions in every language, has none")
    files = photo_files(run, photos) if photos is not None else dict.fromkeys(whole)
    shown = [image for image in whole if image in files][: config.best]
    if not shown:
        raise FileNotFoundError(f"{photos} must have photos of images with features in {run}, has none")
    crop = _crop(run, trained.table)
    drawn = []
    for image in shown:
        its = {language: whole[image][language] for language in trained.languages}
        attention = find_attention(model, features.values[image], texts, its, list(vocabularies.values()))
        file = files[image]
        drawn.append((attention, None if file is None else cropped(file, crop)))
    output.mkdir(parents=True, exist_ok=True)
    draw_attention(drawn, output / HEADS)
    plane = list(whole)[:IN_THE_PLANE]
    with torch.inference_mode():
        views = {"images": model.image(features.values[torch.tensor(plane)])}
        for language in trained.languages:
            its_rows = torch.tensor([whole[image][language] for image in plane])
            views[language] = model.sentences(texts, its_rows)
    draw_views(views, output / VIEWS, config.seed)
    return [output / HEADS, output / VIEWS]


def common_phrases(run: Path, captions: Captions, images: set[int], vocabulary: WordVocabulary) -> Sequence[Phrase]:
    """The COMMON most frequent components of each kind, of known words only, in the captions of these images.

    images: indices among the run's images. Raises ValueError if there are none.
    """
    ids = [caption for caption, image in zip(captions.ids, captions.image.tolist(), strict=True) if image in images]
    rows = read_caption_rows(run, "components", ids)
    phrases = []
    for column, parts in PARTS.items():
        counts = Counter(tuple(item[part] for part in parts) for items in rows[column].to_pylist() for item in items)
        known = (words for words, _ in counts.most_common() if UNKNOWN_ID not in component_ids(vocabulary, words))
        phrases += [Phrase(words, " ".join(words)) for words in islice(known, COMMON)]
    if not phrases:
        raise ValueError("captions of these photos must have components that the model knows, have none: give a query")
    return phrases


def photo_files(run: Path, photos: Path) -> dict[int, Path]:
    """The photo of each image that has one, by the image's index in the run."""
    folder, files = Images(photos), {}
    rows = read_whole_table(run, "captions")
    index = {image: n for n, image in enumerate(read_captions(run).image_ids)}
    for image, name in dict(zip(rows["image_id"].to_pylist(), rows["image"].to_pylist(), strict=True)).items():
        file = folder.find(name)
        if file is not None and image in index:
            files[index[image]] = photos / file
    return files


def _crop(run: Path, table: str) -> Crops | None:
    """The part of a photo that the regions cover, as the manifest of the features states it; None: the whole photo."""
    manifest = manifest_of(run, table)
    made = manifest.identity.config if manifest else {}
    return Crops(made["resize"], made["crop"]) if made.get("grid") else None
