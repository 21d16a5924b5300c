"""Where in a photo a query is seen: maps of the relevance of its regions (UniVSE, Figure 6)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from negcap.pipelines.engine.shards import write_atomically
from negcap.pipelines.features.preprocess import Crops, decode, resized
from negcap.pipelines.models.components import lookup
from negcap.pipelines.models.texts import UNKNOWN_ID
from negcap.pipelines.models.trainer.unified import Phrase
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224  # pixels of a photo as it is drawn


class Row(NamedTuple):
    """A query, the photos that show it best, and of each the scores of its regions (n, n)."""

    query: str
    photos: list[Path]
    maps: Tensor


def read_query(text: str, spacy_model: str | None = None) -> Phrase:
    """The phrase that a query names: its first relation, else attributed object, else object.

    "a dog running on grass" -> ("dog", "run on", "grass"). Raises ValueError for a query that names nothing.
    """
    from negcap.augment.language.parse import parse
    from negcap.augment.scene_graph import scene_graph

    graph = scene_graph(parse([text], spacy_model)[0])
    names = {thing.token: thing.name for thing in graph.objects}
    found: list[tuple[str, ...]] = [(names[item.subject], item.name, names[item.object]) for item in graph.relations]
    found += [(item.value, names[item.object]) for item in graph.attributes]
    found += [(item.name,) for item in graph.objects]
    if not found:
        raise ValueError(f"query must name a thing, was: {text!r}")
    return Phrase(found[0], text)


def relevance(
    model: UniVSE, vocabulary: Vocabulary, queries: Sequence[Phrase], regions: Tensor, photos: Sequence[Path], best: int
) -> list[Row]:
    """For each query the `best` photos and the scores of their regions; regions: (P, R, d), unit vectors.

    A photo's score is that of its best region. Raises ValueError for regions that are no square grid, or a word that
    the model does not know.
    """
    side = isqrt(regions.shape[1])
    if side < 2 or side * side != regions.shape[1]:
        raise ValueError(f"features must be a square grid of regions, have {regions.shape[1]} a photo")
    made = []
    for query in queries:
        unknown = [w for w, id in zip(query.words, lookup(vocabulary, query.words), strict=True) if id == UNKNOWN_ID]
        if unknown:
            raise ValueError(f"query must be of words that the model knows, has: {unknown[0]!r}")
        scores = regions @ model.queries(vocabulary, [query])[0]
        chosen = scores.amax(1).sort(descending=True, stable=True).indices[:best]
        maps = scores[chosen].view(-1, side, side).cpu()
        made.append(Row(query.text, [photos[n] for n in chosen.tolist()], maps))
    return made


def draw_maps(rows: Sequence[Row], path: Path, crop: Crops | None = None) -> None:
    """Draw the rows as a PNG: each photo grey, bright and yellow where the query is seen; one scale a row.

    crop: the part of the photos that the regions are of; None: all of them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = max(len(row.photos) for row in rows)
    figure = Figure(figsize=(1.9 * columns, 2.1 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        low, high = row.maps.min().item(), row.maps.max().item()
        for axis in line:
            axis.set_axis_off()
        for column, (axis, photo, map) in enumerate(zip(line, row.photos, row.maps, strict=False)):
            grey = _seen(photo, crop).convert("L").resize((SIDE, SIDE))
            extent = (0, SIDE, SIDE, 0)
            axis.imshow(grey, cmap="gray", extent=extent)
            shown = {"cmap": "inferno", "alpha": 0.55, "vmin": low, "vmax": high}
            axis.imshow(map.numpy(), extent=extent, interpolation="bicubic", **shown)
            title = f"{map.max().item():.2f}"
            axis.set_title(title if column else f"{row.query}: {title}", fontsize=8, loc="left")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, drawn.getvalue())


def _seen(photo: Path, crop: Crops | None) -> Image:
    """The part of a photo that its features are of."""
    image = decode(photo.read_bytes())
    if crop is None:
        return image
    image = resized(image, crop.resize)
    left, top = crop.corners(*image.size)[-1]
    return image.crop((left, top, left + crop.crop, top + crop.crop))
