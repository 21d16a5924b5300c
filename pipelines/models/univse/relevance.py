"""Maps of where in a photo a query is found, by the scores of its regions (UniVSE, Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from ...features.preprocess import Crops, decode
from ...features.preprocess import cropped as cropped_image
from ..components import component_ids
from ..figures import new_figure, write_png
from ..texts import Phrase
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from .model import UniVSE

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224  # pixels of a photo in the figure
TEMPERATURE = 0.1  # of the softmax over regions


class Photos(NamedTuple):
    """P photos: their files, and unit vectors (P, R, d) of their R regions."""

    files: Sequence[Path]
    regions: Tensor


class RelevanceRow(NamedTuple):
    """A query, the photos in which it scores highest, and where in them.

    scores: (photos,) the highest score of a region. maps: (photos, n, n) the softmax of the scores of the regions, each
    map divided by its maximum.
    """

    query: str
    files: list[Path]
    scores: list[float]
    maps: Tensor


def read_query(text: str, spacy_model: str | None = None) -> Phrase:
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
    return Phrase(found[0], text)


def find_relevance(
    model: UniVSE, vocabulary: WordVocabulary, queries: Sequence[Phrase], photos: Photos, best: int
) -> list[RelevanceRow]:
    """For each query, the `best` photos with the highest-scoring region, and their maps of relevance.

    The relevance of region i is exp(s(v_i, q) / τ), with τ = 0.1, divided by the greatest one of the photo. Raises
    ValueError if the regions are no square grid, or for a word that the model does not know.
    """
    regions = photos.regions
    side = isqrt(regions.shape[1])
    if side < 2 or side * side != regions.shape[1]:
        raise ValueError(f"features must be a square grid of regions, have {regions.shape[1]} per photo")
    rows = []
    for query in queries:
        ids = component_ids(vocabulary, query.words)
        unknown = [word for word, id in zip(query.words, ids, strict=True) if id == UNKNOWN_ID]
        if unknown:
            raise ValueError(f"query must consist of words that the model knows, has: {unknown[0]!r}")
        scores = regions @ model.queries(vocabulary, [query])[0]
        chosen = scores.amax(1).sort(descending=True, stable=True).indices[:best]
        relevance = (scores[chosen] / TEMPERATURE).softmax(1)
        maps = (relevance / relevance.amax(1, keepdim=True)).view(-1, side, side).cpu()
        files, highest = [photos.files[n] for n in chosen.tolist()], scores[chosen].amax(1).tolist()
        rows.append(RelevanceRow(query.text, files, highest, maps))
    return rows


def draw_maps(rows: Sequence[RelevanceRow], path: Path, crop: Crops | None = None) -> None:
    """Draw one row of grey photos per query as a PNG, brighter and yellow where regions are relevant.

    Above each photo stands the score of its best region. crop: the part of the photos that the regions cover; None: the
    whole photo.
    """
    columns = max(len(row.files) for row in rows)
    figure = new_figure(1.9 * columns, 2.1 * len(rows))
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for axis in line:
            axis.set_axis_off()
        shown = zip(line, row.files, row.scores, row.maps, strict=False)
        for column, (axis, photo, score, map) in enumerate(shown):
            grey = cropped(photo, crop).convert("L").resize((SIDE, SIDE))
            extent = (0, SIDE, SIDE, 0)
            axis.imshow(grey, cmap="gray", extent=extent)
            colours = {"cmap": "inferno", "alpha": 0.55, "vmin": 0, "vmax": 1}
            axis.imshow(map.numpy(), extent=extent, interpolation="bicubic", **colours)
            title = f"{score:.2f}"
            axis.set_title(title if column else f"{row.query}: {title}", fontsize=8, loc="left")
    write_png(figure, path, 110)


def cropped(photo: Path, crop: Crops | None) -> Image:
    """The part of a photo that its features were computed from."""
    image = decode(photo.read_bytes())
    return image if crop is None else cropped_image(image, crop)
