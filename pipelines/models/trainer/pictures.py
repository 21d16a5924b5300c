"""Figures of a trained model: UniVSE's relevance maps and word vectors, MHA-D's attention and joint space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...engine.lock import locked
from ...engine.manifest import manifest_of
from ...features.preprocess import cropped, decode
from ...tables.images import Images
from .. import data
from ..config import PictureConfig
from ..device import choose_device, rows_to_device
from ..features import read_features
from ..figures import new_figure, write_png
from ..mhad import MultiHeadAttention
from ..univse.model import UniVSE
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from . import load_model

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224  # pixels of a photo in a figure
TEMPERATURE = 0.1  # of the softmax over regions
IN_THE_PLANE = 200
LINKED = 25  # images in the plane, and those that are linked to their captions by lines
COMMON = 3  # default queries per kind of component
COLOURS = 10  # most frequent words that have a colour of their own
PERPLEXITY = 12
PANELS = {  # by kind of `component_vocabulary`: title, number of phrases, and the word that sets a phrase's colour
    "noun": ("nouns", 120, None),
    "attribute_noun": ("attributed nouns, by attribute", 120, 0),
    "triple": ("triples, by relation", 90, 1),
}


class Subject:
    """A UniVSE or MHA-D model on a device, and what is drawn of a run. features: None if only words are drawn. files:
    the photo of each image that has one, and features, by the image's index; None if no photos are drawn.
    """

    def __init__(self, model_folder: Path, run: Path, photos: Path | None, device: torch.device) -> None:
        self.run = run
        self.device = device
        self.model, self.vocabularies, self.trained = load_model(model_folder, device)
        if not isinstance(self.model, (UniVSE, MultiHeadAttention)):
            raise ValueError(f"pictures need a univse or mha-d model, {model_folder} is: {self.trained.model}")
        self.captions = data.read_captions(run, languages=self.trained.languages)
        self.features: Any = None
        if photos is not None or isinstance(self.model, MultiHeadAttention):
            self.features = read_features(run, self.captions.image_ids, self.trained.table)
        self.files: dict[int, Path] | None = None
        if photos is not None:
            found = photo_files(run, photos, self.captions.image_ids)
            self.files = {image: file for image, file in found.items() if bool(self.features.available[image])}
            if not self.files:
                raise FileNotFoundError(f"{photos} must have photos of images with features in {run}, has none")

    def features_of(self, images: Sequence[int]) -> Tensor:
        """The features of images, on the device."""
        return rows_to_device(self.features.values, torch.tensor(images), self.device)

    def photo(self, image: int) -> Image | None:
        """The photo of an image as `covered` has it; None if no photos are drawn."""
        return None if self.files is None else covered(self.files[image], self.run, self.trained.table)


def draw_pictures(model: Path, run: Path, photos: Path | None, output: Path, config: PictureConfig) -> list[Path]:
    """Draw the figures of a UniVSE or MHA-D model; returns the files written.

    UniVSE: neighbours.png and, if `photos` is the folder of the run's photos, relevance.png. MHA-D: heads.png, on the
    photos if they are given, and views.png. Raises FileNotFoundError or ValueError for another model, for missing
    tables or photos, for a query without a known object, or for a GPU that is not there.
    """
    subject = Subject(model, run, photos, choose_device(config.device))
    with locked(output), torch.inference_mode():
        return (_draw_univse if isinstance(subject.model, UniVSE) else _draw_mhad)(subject, output, config)


def photo_files(run: Path, photos: Path, image_ids: Sequence[str]) -> dict[int, Path]:
    """The photo of each of a run's images that has one, by the image's index in `image_ids`."""
    folder = Images(photos)
    names = data.image_files(run)
    found = {image: folder.find(names[name]) for image, name in enumerate(image_ids)}
    return {image: photos / file for image, file in found.items() if file is not None}


def covered(photo: Path, run: Path, table: str) -> Image:
    """The part of a photo that the regions of a table of features cover."""
    image = decode(photo.read_bytes())
    manifest = manifest_of(run, table)
    made = manifest.identity.config if manifest else {}
    if made.get("grid"):
        image = cropped(image, made["resize"], made["crop"])
    return image.resize((SIDE, SIDE))


def draw_map(axis: Any, photo: Image | None, weights: Tensor | None, title: str = "") -> None:
    """Draw a photo, in grey below weights (n, n) of its regions, which are yellow where they are greatest."""
    axis.set_axis_off()
    extent = (0, SIDE, SIDE, 0)
    if photo is not None:
        axis.imshow(photo if weights is None else photo.convert("L"), cmap="gray", extent=extent)
    if weights is not None:
        shown = {"cmap": "inferno", "vmin": 0, "vmax": 1, "extent": extent, "interpolation": "bicubic"}
        axis.imshow((weights / weights.max()).numpy(), alpha=1 if photo is None else 0.55, **shown)
    axis.set_title(title, fontsize=8, loc="left")


def grid_side(features: Tensor) -> int:
    """The side n of the square grid of R = n² regions of features (…, R, D). Raises ValueError for another shape."""
    side = isqrt(features.shape[-2]) if features.dim() > 1 else 0
    if side < 2 or side * side != features.shape[-2]:
        raise ValueError(f"features must be a square grid of regions, have the shape {tuple(features.shape)}")
    return side


def to_plane(vectors: Tensor, seed: int) -> np.ndarray:
    """Vectors (n, d) as points (n, 2): t-SNE of their cosine distances, initialized by PCA."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="pca", learning_rate="auto", random_state=seed)
    return tsne.fit_transform(vectors.cpu().double().numpy())


# UniVSE


def _draw_univse(subject: Subject, output: Path, config: PictureConfig) -> list[Path]:
    """Draw the most frequent words in the plane and, of a run with photos, where each query is; returns the files."""
    model, (vocabulary, *_), run = subject.model, subject.vocabularies.values(), subject.run
    captions = subject.captions
    files = subject.files
    neighbours = output / "neighbours.png"
    relevance = output / "relevance.png"
    _draw_frequent_words(model, vocabulary, run, neighbours, config.seed)
    if files is None:
        return [neighbours]
    queries: Sequence[data.QueryPhrase] = [read_query(text, config.spacy_model) for text in config.queries]
    queries = queries or common_phrases(run, captions, set(files), vocabulary)
    images = list(files)
    _, regions = model.image.with_regions(subject.features_of(images))
    rows = find_relevance(model, vocabulary, queries, regions, config.best)
    wide = max(len(photos) for photos, *_ in rows)
    figure = new_figure(1.9 * wide, 2.1 * len(rows))
    for line, query, row in zip(figure.subplots(len(rows), wide, squeeze=False), queries, rows, strict=True):
        for axis in line:
            axis.set_axis_off()
        for column, (photo, score, weights) in enumerate(zip(*row, strict=True)):
            title = f"{score:.2f}" if column else f"{query.text}: {score:.2f}"
            draw_map(line[column], subject.photo(images[photo]), weights, title)
    write_png(figure, relevance, 110)
    return [relevance, neighbours]


def read_query(text: str, spacy_model: str | None = None) -> data.QueryPhrase:
    """The component that a query names: its first relation, or else its first attributed object, or its first object.
    "a dog running on grass" -> ("dog", "run on", "grass"). spacy_model: the pipeline that parses the query; None: the
    one shipped with negcap. Raises ValueError for a query without an object.
    """
    from ....augment.language.parse import parse
    from ....augment.scene_graph import scene_graph

    graph = scene_graph(parse([text], spacy_model)[0])
    names = {item.token: item.name for item in graph.objects}
    found: list[tuple[str, ...]] = [(names[item.subject], item.name, names[item.object]) for item in graph.relations]
    found += [(item.value, names[item.object]) for item in graph.attributes]
    found += [(item.name,) for item in graph.objects]
    if not found:
        raise ValueError(f"query must name an object, was: {text!r}")
    return data.QueryPhrase(found[0], text)


def common_phrases(
    run: Path, captions: data.Captions, images: set[int], words: WordVocabulary
) -> list[data.QueryPhrase]:
    """The COMMON most frequent components of each kind, of known words only, in the captions of these images. images:
    indices among the run's images. Raises ValueError if there are none.
    """
    ids = [caption for caption, image in zip(captions.ids, captions.image.tolist(), strict=True) if image in images]
    rows = data.read_caption_rows(run, "components", ids)
    phrases = []
    for column, parts in data.PARTS.items():
        counts = Counter(tuple(item[part] for part in parts) for items in rows[column].to_pylist() for item in items)
        known = (its for its, _ in counts.most_common() if UNKNOWN_ID not in data.component_ids(words, its))
        phrases += [data.QueryPhrase(its, " ".join(its)) for its in islice(known, COMMON)]
    if not phrases:
        raise ValueError("captions of these photos must have components that the model knows, have none: give a query")
    return phrases


def find_relevance(
    model: UniVSE, vocabulary: WordVocabulary, queries: Sequence[data.QueryPhrase], regions: Tensor, best: int
) -> list[tuple[list[int], list[float], Tensor]]:
    """For each query, the `best` photos with the highest-scoring region, its score, and their maps of relevance (n, n).

    regions: unit vectors (P, R, d) of P photos. The relevance of region i is exp(s(v_i, q) / τ), with τ = 0.1, divided
    by the greatest one of the photo. Raises ValueError if the regions are no square grid, or for a word that the model
    does not know.
    """
    side = grid_side(regions)
    rows = []
    for query in queries:
        ids = data.component_ids(vocabulary, query.words)
        unknown = [word for word, id in zip(query.words, ids, strict=True) if id == UNKNOWN_ID]
        if unknown:
            raise ValueError(f"query must consist of words that the model knows, has: {unknown[0]!r}")
        scores = regions @ model.queries(vocabulary, [query])[0]
        chosen = scores.amax(1).sort(descending=True, stable=True).indices[:best]
        relevance = (scores[chosen] / TEMPERATURE).softmax(1)
        maps = (relevance / relevance.amax(1, keepdim=True)).view(-1, side, side).cpu()
        rows.append((chosen.tolist(), scores[chosen].amax(1).tolist(), maps))
    return rows


def _draw_frequent_words(model: UniVSE, vocabulary: WordVocabulary, run: Path, path: Path, seed: int) -> None:
    components = data.read_whole_table(run, "component_vocabulary")  # by descending count
    entries = list(zip(components["kind"].to_pylist(), components["words"].to_pylist(), strict=True))
    figure = new_figure(30, 10)
    for axis, (kind, (title, number, word)) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        axis.set_axis_off()
        axis.set_title(title, fontsize=16)
        phrases = [data.QueryPhrase(tuple(words), " ".join(words)) for its, words in entries if its == kind][:number]
        if len(phrases) < 5:
            continue
        points = to_plane(model.queries(vocabulary, phrases), seed)
        axis.scatter(*points.T, s=4, c="lightgray")
        counts = Counter() if word is None else Counter(phrase.words[word] for phrase in phrases)
        colours = {name: f"C{n}" for n, (name, _) in enumerate(counts.most_common(COLOURS))}
        for phrase, point in zip(phrases, points, strict=True):
            colour = "black" if word is None else colours.get(phrase.words[word], "black")
            axis.annotate(phrase.text, point, fontsize=10, color=colour, ha="center")
    write_png(figure, path, 100)


# MHA-D


def _draw_mhad(subject: Subject, output: Path, config: PictureConfig) -> list[Path]:
    """Draw heads.png, of the first images (with a photo), and views.png, of images that were not trained on."""
    model = subject.model
    vocabularies = subject.vocabularies
    trained = subject.trained
    run = subject.run
    captions = subject.captions
    features = subject.features
    files = subject.files
    texts = data.encode_run(run, captions, vocabularies, device=subject.device, selection=None).texts
    of_image: dict[int, dict[str, int]] = {}  # the first caption of an image in each language
    seen = set(captions.of_splits(trained.train_splits).tolist())
    for row in [row for row in range(len(captions.ids)) if row not in seen] or range(len(captions.ids)):
        image = int(captions.image[row])
        if bool(features.available[image]):
            of_image.setdefault(image, {}).setdefault(trained.languages[int(captions.language[row])], row)
    whole = {image: its for image, its in of_image.items() if len(its) == len(trained.languages)}
    if not whole:
        raise ValueError(f"{run} must have images with features and captions in every language, has none")
    shown = [image for image in whole if files is None or image in files][: config.best]
    if not shown:
        raise FileNotFoundError(f"there must be photos of images with features in {run} that are not trained on")
    heads = output / "heads.png"
    views = output / "views.png"
    columns = [1.9] * model.head_count + [4.6] * len(vocabularies)
    figure = new_figure(sum(columns), 2.1 * len(shown))
    axes = figure.subplots(len(shown), len(columns), squeeze=False, width_ratios=columns)
    for line, image in zip(axes, shown, strict=True):
        side = grid_side(features.values[image])
        maps = model.image.attend(subject.features_of([image])).weights[0].view(-1, side, side).cpu()
        for number, (axis, weights) in enumerate(zip(line, maps, strict=False), 1):
            draw_map(axis, subject.photo(image), weights, f"head {number}")
        for axis, (language, known) in zip(line[model.head_count :], vocabularies.items(), strict=True):
            words, weights = attended_words(model, language, texts, whole[image][language], known)
            # each line is scaled by its own maximum
            axis.imshow(
                (weights / weights.amax(1, keepdim=True)).numpy(), aspect="auto", cmap="inferno", vmin=0, vmax=1
            )
            axis.set_xticks(range(len(words)), words, rotation=40, ha="right", fontsize=7)
            axis.set_yticks(range(len(weights)), [f"head {head + 1}" for head in range(len(weights))], fontsize=7)
            axis.set_title(language, fontsize=8, loc="left")
    write_png(figure, heads, 110)
    plane = list(whole)[:IN_THE_PLANE]
    vectors = {"images": model.image(subject.features_of(plane))}
    for language in vocabularies:
        vectors[language] = model.sentences(texts, torch.tensor([whole[image][language] for image in plane]))
    _draw_views(vectors, views, config.seed)
    return [heads, views]


def attended_words(
    model: MultiHeadAttention, language: str, texts: data.RunTexts, row: int, vocabulary: WordVocabulary
) -> tuple[list[str], Tensor]:
    """The N words of a text in a language, and what the K heads of its encoder give them, (K, N), on the CPU."""
    weights = model.text[language].attend(texts.tokens, texts.offsets, torch.tensor([row])).weights[0].cpu()
    ids = texts.tokens[texts.offsets[row] : texts.offsets[row + 1]].tolist()[: weights.shape[1]]
    return [vocabulary.words[id] for id in ids], weights


def _draw_views(views: Mapping[str, Tensor], path: Path, seed: int) -> None:
    """Draw unit vectors (n, d) of the same n images and captions in the plane; lines link the first few."""
    points = np.split(to_plane(torch.cat(list(views.values())), seed), len(views))
    figure = new_figure(9, 9)
    axis = figure.subplots()
    axis.set_axis_off()
    for image in range(min(LINKED, len(points[0]))):
        for its in points[1:]:
            axis.plot(*np.stack([points[0][image], its[image]]).T, color="lightgray", linewidth=0.8, zorder=0)
    for number, (name, its) in enumerate(zip(views, points, strict=True)):
        axis.scatter(its[:, 0], its[:, 1], s=14, marker="sov^D*"[number % 6], color=f"C{number}", label=name)
    axis.legend(loc="upper right")
    write_png(figure, path, 100)
