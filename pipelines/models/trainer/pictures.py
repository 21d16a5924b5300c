"""Figures of a trained model: UniVSE's relevance maps and word vectors, MHA-D's attention and joint space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from ..features import ImageFeatures, read_features
from ..figures import COLOURS, colour_of, label_points, new_figure, write_png
from ..mhad import MultiHeadAttention
from ..univse.model import UniVSE
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from . import load_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

SIDE = 224  # pixels of a photo in a figure
TEMPERATURE = 0.1  # of the softmax over regions
IN_THE_PLANE = 200  # images in the plane
LINKED = 25  # of these, images that are linked to their captions by lines
COMMON = 3  # default queries per kind of component
READABLE = 4  # colours of the palette that words can be read in; further words are black
PERPLEXITY = 12  # of t-SNE
LEAST_PHRASES = 5  # that are drawn in the plane


class Panel(NamedTuple):
    """Phrases of one kind in the plane: the title, how many, and the index of the word that sets a phrase's colour."""

    title: str
    phrases: int
    coloured_by: int | None


PANELS = {  # by kind of `component_vocabulary`
    "noun": Panel("nouns", phrases=120, coloured_by=None),
    "attribute_noun": Panel("attributed nouns, by attribute", phrases=120, coloured_by=0),
    "triple": Panel("triples, by relation", phrases=90, coloured_by=1),
}


class Subject:
    """What is drawn: a model on a device, and a run, with its photos if there are any.

    Attributes:
        features: of the images; None if only words are drawn.
        files: the photo of each image that has one, and features, by the image's index; None if no photos are drawn.
    """

    def __init__(self, model_folder: Path, run: Path, photos: Path | None, device: torch.device) -> None:
        """Load a model and what it is drawn on; photos: the folder of the run's photos; None: none are drawn.

        Raises ValueError for a model of another kind, FileNotFoundError if there are no photos of images with features.
        """
        self.run = run
        self.device = device
        self.model, self.vocabularies, self.trained = load_model(model_folder, device)
        if not isinstance(self.model, (UniVSE, MultiHeadAttention)):
            raise ValueError(f"pictures need a univse or mha-d model, {model_folder} is: {self.trained.model}")
        self.captions = data.read_captions(run, languages=self.trained.languages)
        self.features: ImageFeatures | None = None
        if photos is not None or isinstance(self.model, MultiHeadAttention):
            self.features = read_features(run, self.captions.image_ids, self.trained.table)
        self.files: dict[int, Path] | None = None
        if photos is not None and self.features is not None:
            files = photo_files(run, photos, self.captions.image_ids)
            self.files = {image: file for image, file in files.items() if bool(self.features.available[image])}
            if not self.files:
                raise FileNotFoundError(f"{photos} must have photos of images with features in {run}, has none")

    def features_of(self, images: Sequence[int]) -> Tensor:
        """The features of images, on the device."""
        assert self.features is not None
        return rows_to_device(self.features.values, torch.tensor(images), self.device)

    def photo(self, image: int) -> Image | None:
        """The photo of an image as `covered_part` has it; None if no photos are drawn."""
        return None if self.files is None else covered_part(self.files[image], self.run, self.trained.table)


def draw_pictures(model: Path, run: Path, photos: Path | None, output: Path, config: PictureConfig) -> list[Path]:
    """Draw the figures of a UniVSE or MHA-D model; returns the files written.

    UniVSE: neighbours.png and, if `photos` is the folder of the run's photos, relevance.png. MHA-D: heads.png, on the
    photos if they are given, and views.png. Raises FileNotFoundError or ValueError for another model, for missing
    tables or photos, for a query without a known object, or for a GPU that is not there.
    """
    subject = Subject(model, run, photos, choose_device(config.device))
    with locked(output), torch.inference_mode():
        if isinstance(subject.model, UniVSE):
            return _draw_univse(subject, subject.model, output, config)
        assert isinstance(subject.model, MultiHeadAttention)
        return _draw_mhad(subject, subject.model, output, config)


def photo_files(run: Path, photos: Path, image_ids: Sequence[str]) -> dict[int, Path]:
    """The photo of each of a run's images that has one, by the image's index in `image_ids`."""
    folder = Images(photos)
    names = data.image_files(run)
    files = {}
    for image, image_id in enumerate(image_ids):
        file = folder.find(names[image_id])
        if file is not None:
            files[image] = photos / file
    return files


def covered_part(photo: Path, run: Path, table: str) -> Image:
    """The part of a photo that the regions of a table of features cover: the model sees no more of it."""
    image = decode(photo.read_bytes())
    manifest = manifest_of(run, table)
    made_by = manifest.identity.config if manifest else {}
    if made_by.get("grid"):
        image = cropped(image, made_by["resize"], made_by["crop"])
    return image.resize((SIDE, SIDE))


def draw_map(axis: Axes, photo: Image | None, weights: Tensor | None, title: str = "") -> None:
    """Draw a photo in grey, and over it the weights of its regions, which are yellow where they are greatest.

    Args:
        axis: to draw on.
        photo: the photo; None: the weights alone are drawn.
        weights: (n, n) of regions, row by row; None: the photo alone is drawn, in colours.
        title: above the photo.
    """
    axis.set_axis_off()
    extent = (0, SIDE, SIDE, 0)
    if photo is not None:
        axis.imshow(photo if weights is None else photo.convert("L"), cmap="gray", extent=extent)
    if weights is not None:
        axis.imshow(
            (weights / weights.max()).numpy(),
            alpha=1 if photo is None else 0.55,
            cmap="inferno",
            vmin=0,
            vmax=1,
            extent=extent,
            interpolation="bicubic",
        )
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

    # t-SNE needs three times as many points as its perplexity
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="pca", learning_rate="auto", random_state=seed)
    return tsne.fit_transform(vectors.cpu().double().numpy())


# UniVSE


def _draw_univse(subject: Subject, model: UniVSE, output: Path, config: PictureConfig) -> list[Path]:
    """Draw the pictures of a UniVSE in a folder, and return their paths.

    neighbours.png: the most frequent words in the plane. relevance.png: where in the photos each query of the config
    is found, or else frequent phrases of the run; it is not drawn without photos.
    """
    vocabulary = subject.vocabularies[subject.trained.languages[0]]
    neighbours = output / "neighbours.png"
    _draw_frequent_words(model, vocabulary, subject.run, neighbours, config.seed)
    if subject.files is None:
        return [neighbours]
    queries = [read_query(text, config.spacy_model) for text in config.queries]
    if not queries:
        queries = common_phrases(subject.run, subject.captions, set(subject.files), vocabulary)
    images = list(subject.files)
    regions = model.image.with_regions(subject.features_of(images)).regions
    results = find_relevance(model, vocabulary, queries, regions, config.best)
    columns = max(len(result.photos) for result in results)
    figure = new_figure(1.9 * columns, 2.1 * len(results))
    lines = figure.subplots(len(results), columns, squeeze=False)
    for line, query, result in zip(lines, queries, results, strict=True):
        for axis in line:
            axis.set_axis_off()
        for column, photo in enumerate(result.photos):
            score = f"{result.scores[column]:.2f}"
            title = score if column else f"{query.text}: {score}"  # the query only above the first photo of its line
            draw_map(line[column], subject.photo(images[photo]), result.maps[column], title)
    relevance = output / "relevance.png"
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
    components: list[tuple[str, ...]] = []  # the most specific first
    components += [(names[item.subject], item.name, names[item.object]) for item in graph.relations]
    components += [(item.value, names[item.object]) for item in graph.attributes]
    components += [(item.name,) for item in graph.objects]
    if not components:
        raise ValueError(f"query must name an object, was: {text!r}")
    return data.QueryPhrase(components[0], text)


def common_phrases(
    run: Path, captions: data.Captions, images: set[int], words: WordVocabulary
) -> list[data.QueryPhrase]:
    """The COMMON most frequent components of each kind, of known words only, in the captions of some images.

    Args:
        run: whose components are counted.
        captions: of the run.
        images: the indices of the images.
        words: those that the model knows.

    Raises:
        ValueError: there are no such components.
    """
    caption_ids = []
    for caption_id, image in zip(captions.ids, captions.image.tolist(), strict=True):
        if image in images:
            caption_ids.append(caption_id)
    rows = data.read_caption_rows(run, "components", caption_ids)
    phrases = []
    for column, parts in data.PARTS.items():
        counts: Counter[tuple[str, ...]] = Counter()
        for components in rows[column].to_pylist():
            counts.update(tuple(component[part] for part in parts) for component in components)
        known = [name for name, _ in counts.most_common() if UNKNOWN_ID not in data.component_ids(words, name)]
        phrases += [data.QueryPhrase(name, " ".join(name)) for name in known[:COMMON]]
    if not phrases:
        raise ValueError("captions of these photos must have components that the model knows, have none: give a query")
    return phrases


class Relevance(NamedTuple):
    """The n photos that fit a query best. photos: their indices, the best one first. scores: of each, that of its best
    region. maps: (n, side, side), the relevance of each region, 1 for the most relevant one of its photo.
    """

    photos: list[int]
    scores: list[float]
    maps: Tensor


def find_relevance(
    model: UniVSE, vocabulary: WordVocabulary, queries: Sequence[data.QueryPhrase], regions: Tensor, best: int
) -> list[Relevance]:
    """For each query, the photos that fit it best, and where in them it is found.

    A photo fits as well as the region of it that scores highest. The relevance of region i is exp(s(v_i, q) / τ), with
    τ = 0.1, divided by the greatest one of the photo.

    Args:
        model: gives each query its vector q.
        vocabulary: that the model was trained with.
        queries: phrases.
        regions: (P, R, d) unit vectors v of the R regions of P photos.
        best: how many photos of each query.

    Raises:
        ValueError: the regions are no square grid, or the model does not know a word.
    """
    side = grid_side(regions)
    results = []
    for query in queries:
        ids = data.component_ids(vocabulary, query.words)
        unknown = [word for word, id in zip(query.words, ids, strict=True) if id == UNKNOWN_ID]
        if unknown:
            raise ValueError(f"query must consist of words that the model knows, has: {unknown[0]!r}")
        # a photo scores as its best region does
        scores = regions @ model.queries(vocabulary, [query])[0]  # (P, R)
        photos = scores.amax(1).sort(descending=True, stable=True).indices[:best]
        relevance = (scores[photos] / TEMPERATURE).softmax(1)
        # each map is divided by its own maximum: it shows where a query is, not how well it fits
        maps = (relevance / relevance.amax(1, keepdim=True)).view(-1, side, side).cpu()
        results.append(Relevance(photos.tolist(), scores[photos].amax(1).tolist(), maps))
    return results


def _draw_frequent_words(model: UniVSE, vocabulary: WordVocabulary, run: Path, path: Path, seed: int) -> None:
    """Draw the most frequent components of a run as points of a plane, a panel for each kind of component.

    Args:
        model: gives each its vector.
        vocabulary: that the model was trained with.
        run: whose table component_vocabulary is drawn.
        path: the PNG to write.
        seed: of the projection into the plane.
    """
    components = data.read_whole_table(run, "component_vocabulary").to_pylist()  # by descending count
    figure = new_figure(30, 10)
    for axis, (kind, panel) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        axis.set_axis_off()
        axis.set_title(panel.title, fontsize=16)
        names = [tuple(row["words"]) for row in components if row["kind"] == kind][: panel.phrases]
        # So few phrases have no neighbourhoods that a plane could show: the panel stays empty.
        if len(names) < LEAST_PHRASES:
            continue
        phrases = [data.QueryPhrase(name, " ".join(name)) for name in names]
        points = to_plane(model.queries(vocabulary, phrases), seed)
        colours = _colours(names, panel.coloured_by)
        axis.scatter(*points.T, s=9, c=colours)
        axis.margins(0.12, 0.05)  # for the names of the outer points
        label_points(axis, points, [phrase.text for phrase in phrases], colours, size=10)
    write_png(figure, path, 100)


def _colours(names: Sequence[tuple[str, ...]], coloured_by: int | None) -> list[str]:
    """The colour of each name: names with the same word at the index `coloured_by` have the same colour, if the word is
    one of the READABLE most frequent ones; the others are black.
    """
    if coloured_by is None:
        return ["black"] * len(names)
    counts = Counter(name[coloured_by] for name in names)
    # The palette's further colours are lighter: thin letters of them cannot be read on white.
    colours = dict(zip((word for word, _ in counts.most_common()), COLOURS[:READABLE], strict=False))
    return [colours.get(name[coloured_by], "black") for name in names]


# MHA-D


CaptionOfLanguage = dict[str, int]  # by language, the number of a caption


def _draw_mhad(subject: Subject, model: MultiHeadAttention, output: Path, config: PictureConfig) -> list[Path]:
    """Draw the pictures of an MHA-D: heads.png, where each head looks; views.png, images and captions in the plane.

    Args:
        subject: the run, its features, and its photos if there are any.
        model: to look into.
        output: the folder.
        config: how many images heads.png shows, and the seed of the plane.

    Returns:
        The files.
    """
    run = subject.run
    files = subject.files
    encoded = data.encode_run(run, subject.captions, subject.vocabularies, device=subject.device, selection=None)
    # the model may know the captions that it was trained on by heart, so others are shown
    captions = _captions_not_trained_on(subject)
    if not captions:
        raise ValueError(f"{run} must have images with features and captions in every language, has none")
    shown = [image for image in captions if files is None or image in files][: config.best]
    if not shown:
        raise FileNotFoundError(f"there must be photos of images with features in {run} that are not trained on")
    heads = output / "heads.png"
    views = output / "views.png"
    _draw_heads(subject, model, encoded.texts, {image: captions[image] for image in shown}, heads)

    in_the_plane = list(captions)[:IN_THE_PLANE]
    vectors = {"images": model.image(subject.features_of(in_the_plane))}
    for language in subject.vocabularies:
        rows = torch.tensor([captions[image][language] for image in in_the_plane])
        vectors[language] = model.sentences(encoded.texts, rows)
    _draw_views(vectors, views, config.seed)
    return [heads, views]


def _captions_not_trained_on(subject: Subject) -> dict[int, CaptionOfLanguage]:
    """The first caption of each image in each language, by image: {7: {"en": 31, "de": 902}}.

    Only images with features and with captions in all languages; only captions that the model was not trained on,
    unless there are no others.
    """
    captions = subject.captions
    languages = subject.trained.languages
    assert subject.features is not None
    trained_on = set(captions.of_splits(subject.trained.train_splits).tolist())
    rows = [row for row in range(len(captions.ids)) if row not in trained_on]
    of_image: dict[int, CaptionOfLanguage] = {}
    for row in rows or range(len(captions.ids)):
        image = int(captions.image[row])
        if bool(subject.features.available[image]):
            of_image.setdefault(image, {}).setdefault(languages[int(captions.language[row])], row)
    return {image: of_language for image, of_language in of_image.items() if len(of_language) == len(languages)}


def _draw_heads(
    subject: Subject,
    model: MultiHeadAttention,
    texts: data.RunTexts,
    captions: Mapping[int, CaptionOfLanguage],
    path: Path,
) -> None:
    """Draw a line for each image: where each head looks in it, and at which words of its caption in each language.

    Args:
        subject: the run and the model's features of it.
        model: whose heads are drawn.
        texts: of the run, encoded.
        captions: by the number of an image, the caption of each language.
        path: the PNG to write.
    """
    assert subject.features is not None
    columns = [1.9] * model.head_count + [4.6] * len(subject.vocabularies)  # inches
    figure = new_figure(sum(columns), 2.1 * len(captions))
    lines = figure.subplots(len(captions), len(columns), squeeze=False, width_ratios=columns)
    for line, (image, of_language) in zip(lines, captions.items(), strict=True):
        side = grid_side(subject.features.values[image])
        maps = model.image.attend(subject.features_of([image])).weights[0].view(-1, side, side).cpu()
        for head in range(model.head_count):
            draw_map(line[head], subject.photo(image), maps[head], f"head {head + 1}")
        for axis, (language, vocabulary) in zip(line[model.head_count :], subject.vocabularies.items(), strict=True):
            attended = attended_words(model, language, texts, of_language[language], vocabulary)
            _draw_words(axis, attended, language)
    write_png(figure, path, 110)


def _draw_words(axis: Axes, attended: AttendedWords, language: str) -> None:
    """Draw the weights of words as a picture, a line for each head, which is scaled by its own maximum."""
    scaled = attended.weights / attended.weights.amax(1, keepdim=True)
    axis.imshow(scaled.numpy(), aspect="auto", cmap="inferno", vmin=0, vmax=1)
    axis.set_xticks(range(len(attended.words)), attended.words, rotation=40, ha="right", fontsize=7)
    heads = [f"head {head + 1}" for head in range(len(scaled))]
    axis.set_yticks(range(len(heads)), heads, fontsize=7)
    axis.set_title(language, fontsize=8, loc="left")


class AttendedWords(NamedTuple):
    """The N words of a text, and what K heads give them: weights (K, N), on the CPU."""

    words: list[str]
    weights: Tensor


def attended_words(
    model: MultiHeadAttention, language: str, texts: data.RunTexts, row: int, vocabulary: WordVocabulary
) -> AttendedWords:
    """The words of a text in a language, and what the heads of its encoder give them."""
    attended = model.text_encoder(language).attend(texts.tokens, texts.offsets, torch.tensor([row]))
    weights = attended.weights[0].cpu()
    ids = texts.tokens[texts.offsets[row] : texts.offsets[row + 1]].tolist()
    return AttendedWords([vocabulary.words[id] for id in ids[: weights.shape[1]]], weights)  # long texts are cut


def _draw_views(views: Mapping[str, Tensor], path: Path, seed: int) -> None:
    """Draw unit vectors (n, d) of the same n images and captions in the plane; lines link the first few."""
    points = np.split(to_plane(torch.cat(list(views.values())), seed), len(views))  # each (n, 2)
    images, *captions = points
    figure = new_figure(9, 9)
    axis = figure.subplots()
    axis.set_axis_off()
    for image in range(min(LINKED, len(images))):
        for of_language in captions:
            line = np.stack([images[image], of_language[image]])
            axis.plot(*line.T, color="lightgray", linewidth=0.8, zorder=0)
    for number, (name, of_view) in enumerate(zip(views, points, strict=True)):
        marker = "sov^D*"[number % 6]
        axis.scatter(of_view[:, 0], of_view[:, 1], s=14, marker=marker, color=colour_of(number), label=name)
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(views), frameon=False)
    write_png(figure, path, 100)
