"""Saliency: which words of a negative, and which regions of the image, its score depends on (VSE-C, eq. 4, Figure 2).

J = ∇ s(i, c') for an image i and a negative c' of one of its captions: of a word, the mean of |J| over the numbers of
its vector, as a share of the sum over the words of the negative; of a region, the sum of |J| over its features.

As the edits of a negative are known, so is the share of the saliency that is on the words they put in, to compare with
the share of the words that these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ...engine.tables import read_table
from ...features.preprocess import decode
from ..captions import read_captions
from ..corpus import pack_sentences
from ..encoders import run_packed
from ..evaluation.retrieval import bootstrap_samples, interval
from ..features import read_features
from ..figures import new_figure, write_png
from ..similarities import SIMILARITIES, Similarity
from ..trainer.objectives import load_model
from ..vocabulary import word_spans
from .config import SaliencyConfig

AT_ONCE = 512  # negatives whose gradients are computed together


class SalientNegative(NamedTuple):
    """A negative with the saliency of its words.

    words: as the model reads them. shares: one per word, which sum to 1. edited: one per word, whether an edit put it
    in. score: its similarity with the image; regions: the saliency of the regions, (R,), or None without a grid.
    """

    negative_id: str
    operator: str
    image: int
    words: list[str]
    shares: list[float]
    edited: list[bool]
    score: float
    regions: Tensor | None

    @property
    def share(self) -> float:
        """The share of the saliency that is on the edited words."""
        return sum(share for share, edited in zip(self.shares, self.edited, strict=True) if edited)

    @property
    def chance(self) -> float:
        """The share of the words that were edited."""
        return sum(self.edited) / len(self.edited)


def find_saliency(model_folder: Path, run: Path, config: SaliencyConfig) -> list[SalientNegative]:
    """The saliency of the words of negatives of a run under a model.

    Raises FileNotFoundError or ValueError for a folder without a model, a run without the split, features or negatives,
    or a model that does not read its captions with a recurrent net.
    """
    torch.set_num_threads(config.threads)
    model, vocabulary, trained = load_model(model_folder, torch.device("cpu"))
    if recurrent_net(model.text) is None:
        raise ValueError(f"saliency needs a model with a recurrent text encoder, {model_folder} is: {trained.model}")
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, trained.table)
    chosen = captions.to_evaluate(config.split, features.available, config.limit)
    image_of = {captions.ids[n]: int(captions.image[n]) for n in chosen.tolist()}
    rows = first_rows(run, image_of, config.operators)
    found, similarity = [], SIMILARITIES[trained.similarity]
    for start in range(0, len(rows), AT_ONCE):
        part = rows.slice(start, AT_ONCE)
        texts = part["text"].to_pylist()
        images = torch.tensor([image_of[caption] for caption in part["caption_id"].to_pylist()])
        tokens, offsets = map(torch.from_numpy, vocabulary.encode(texts))
        scores, words, regions = gradients(model, similarity, tokens, offsets, features.values[images])
        keys = (part[name].to_pylist() for name in ("negative_id", "operator", "edits"))
        for n, (negative, operator, edits) in enumerate(zip(*keys, strict=True)):
            spans = word_spans(texts[n])
            edited = edited_words(spans, edits)
            if any(edited):
                own = words[n][1 : int(offsets[n + 1] - offsets[n]) - 1]
                shares = (own / own.sum().clamp(min=1e-12)).tolist()
                written = [texts[n][begin:end] for begin, end in spans]
                on_grid = None if regions is None else regions[n]
                about = (negative, operator, int(images[n]), written, shares, edited, float(scores[n]), on_grid)
                found.append(SalientNegative(*about))
    return found


def first_rows(run: Path, captions: Iterable[str], operators: tuple[str, ...]) -> pa.Table:
    """The first negative of each operator of these caption_ids. Raises ValueError if there is none."""
    columns = ["negative_id", "caption_id", "operator", "text", "edits"]
    wanted = pa.array(list(captions), pa.string())
    parts = []
    for table in read_table(run, "negatives", columns):
        kept = pc.and_(pc.is_in(table["caption_id"], wanted), pc.ends_with(table["negative_id"], ":0"))
        if operators:
            kept = pc.and_(kept, pc.is_in(table["operator"], pa.array(operators)))
        parts.append(table.filter(kept))
    rows = pa.concat_tables(parts)
    if not len(rows):
        raise ValueError(f"{run} must have negatives of these captions, has none")
    return rows


def gradients(
    model: Any, similarity: Similarity, tokens: Tensor, offsets: Tensor, features: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The similarity of n texts with n images, and how much it depends on each word and on each region.

    tokens, offsets: the texts, as in EncodedTexts. features: (n, D), or (n, R, D) on a grid. Returns the similarities
    (n,); the mean absolute gradient to the vector of each word (n, T), 0 behind a text's end; and the sum of the
    absolute gradients to the features of each region (n, R), None without a grid.
    """
    fed: list[Tensor] = []

    def keep(module: Any, inputs: Any, output: Tensor) -> Tensor:
        fed.append(output.detach().requires_grad_())
        return fed[0]

    hook = model.text.embedding.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            seen = features.float().requires_grad_()
            rows = torch.arange(len(features))
            net, embedding, pooling = recurrent_net(model.text), model.text.embedding, model.text.pooling
            texts = model.text.finish(run_packed(net, embedding, pooling, tokens, offsets, rows))
            scores = similarity.pairs(model.image(seen), texts)
            of_words, of_features = torch.autograd.grad(scores.sum(), [fed[0], seen])
    finally:
        hook.remove()
    packed, lengths = pack_sentences(offsets, rows), offsets.diff()
    words = of_words.new_zeros(len(rows), int(lengths.max()))
    words[torch.arange(words.shape[1]) < lengths[:, None]] = of_words.abs().mean(1)[packed.positions.argsort()]
    regions = of_features.nan_to_num(0.0).abs().sum(-1) if features.dim() == 3 else None
    return scores.detach(), words, regions


def recurrent_net(text: Any) -> Any:
    """The GRU or LSTM of a text encoder; None if it has none."""
    return getattr(text, "net", None)


def edited_words(spans: list[tuple[int, int]], edits: list[dict[str, Any]]) -> list[bool]:
    """For each word of a negative, whether an edit put it in.

    spans: of the words, as (start, end) in the negative. edits: of the negative; their places are in the caption.
    """
    put, shift = [], 0
    for edit in edits:
        start = edit["start"] + shift
        put.append((start, start + len(edit["new"])))
        shift += len(edit["new"]) - (edit["end"] - edit["start"])
    return [any(start < stop and begin < end for begin, stop in put) for start, end in spans]


def summarize(negatives: list[SalientNegative], seed: int) -> dict[str, dict[str, Any]]:
    """By operator: the mean share of the saliency on edited words, and the share that chance gives, in %.

    With the number of negatives, and the 95 % bootstrap intervals, over images, of the share and of its difference from
    chance.
    """
    metrics = {}
    for name in sorted({one.operator for one in negatives}):
        own = [one for one in negatives if one.operator == name]
        image = torch.tensor([one.image for one in own]).unique(return_inverse=True)[1]
        sums = torch.zeros(int(image.max()) + 1, 4, dtype=torch.double)
        values = [[one.share, one.chance, one.share - one.chance, 1.0] for one in own]
        sums.index_add_(0, image, torch.tensor(values, dtype=torch.double))
        (samples,) = bootstrap_samples([sums[None]], seed)
        share, chance, beyond, _ = (100 * sums.sum(0) / len(own)).tolist()
        metrics[name] = {
            "negatives": len(own),
            "share": share,
            "share interval": list(interval(samples[:, 0])),
            "chance": chance,
            "beyond chance": beyond,
            "beyond chance interval": list(interval(samples[:, 2])),
        }
    return metrics


SHOWN = 2  # negatives per operator
CHARACTERS = 96  # per line of a negative
SIDE = 224  # pixels of a photo


def choose_shown(negatives: Sequence[SalientNegative], photos: Mapping[int, Path]) -> list[SalientNegative]:
    """The first negatives of each operator, of images with a photo if there are any photos."""
    shown: dict[str, list[SalientNegative]] = {}
    for one in negatives:
        own = shown.setdefault(one.operator, [])
        if len(own) < SHOWN and (not photos or one.image in photos) and one.image not in {other.image for other in own}:
            own.append(one)
    return [one for name in sorted(shown) for one in shown[name]]


def draw_saliency(negatives: Sequence[SalientNegative], photos: Mapping[int, Path], path: Path) -> None:
    """Draw the negatives, one below the other: the darker a word, the more the score depends on it.

    Below each word stands its share in %, in bold below those that an edit put in. photos: by the image's number; with
    regions on a square grid the photo is brighter where the score depends on it more, otherwise as it is.
    """
    lines = [_lines(one.words) for one in negatives]
    heights = [max(0.75 * len(own) + 0.35, 1.7 if photos else 0.0) for own in lines]
    figure = new_figure(9.0 + 1.8 * bool(photos), sum(heights))
    grid = figure.add_gridspec(len(negatives), 2, height_ratios=heights, width_ratios=(1.7 if photos else 0.01, 9.0))
    for row, (one, own) in enumerate(zip(negatives, lines, strict=True)):
        image, text = figure.add_subplot(grid[row, 0]), figure.add_subplot(grid[row, 1])
        for axis in (image, text):
            axis.set_axis_off()
        if one.image in photos:
            _draw_photo(image, one, photos[one.image])
        title = f"{one.operator}: {one.share:.0%} on {one.chance:.0%} of the words, similarity {one.score:.2f}"
        text.set_title(title, fontsize=8, loc="left", color="0.35")
        text.set_xlim(0, CHARACTERS)
        text.set_ylim(-len(own), 0.1)
        for line, places in enumerate(own):
            for number, at in places:
                word, share, edited = one.words[number], one.shares[number], one.edited[number]
                shade = share / max(one.shares)
                colour = (1.0, 1.0 - 0.55 * shade, 1.0 - 0.8 * shade)  # white to orange
                box = {"facecolor": colour, "edgecolor": "black" if edited else "none", "pad": 2.0, "linewidth": 1.0}
                x, y = at + max(len(word), 3) / 2, -line - 0.35
                style: dict[str, Any] = {"family": "monospace", "ha": "center", "va": "center"}
                text.text(x, y, word, fontsize=9, bbox=box, **style)
                weight = "bold" if edited else "normal"
                text.text(x, y - 0.42, f"{100 * share:.0f}", fontsize=7, color="0.3", weight=weight, **style)
    write_png(figure, path, 110)


def _lines(words: Sequence[str]) -> list[list[tuple[int, float]]]:
    """Words broken into lines: for each line, the number of each of its words, and where it begins, in characters."""
    lines: list[list[tuple[int, float]]] = [[]]
    at = 0.0
    for number, word in enumerate(words):
        width = max(len(word), 3) + 1.2
        if at + width > CHARACTERS and lines[-1]:
            lines.append([])
            at = 0.0
        lines[-1].append((number, at))
        at += width
    return lines


def _draw_photo(axes: Any, one: SalientNegative, photo: Path) -> None:
    picture = decode(photo.read_bytes()).resize((SIDE, SIDE))
    extent = (0, SIDE, SIDE, 0)
    if one.regions is None or isqrt(len(one.regions)) ** 2 != len(one.regions):
        axes.imshow(picture, extent=extent)
        return
    side = isqrt(len(one.regions))
    map = (one.regions / one.regions.max().clamp(min=1e-12)).view(side, side).numpy() ** 0.5
    axes.imshow(picture.convert("L"), cmap="gray", extent=extent)
    axes.imshow(map, extent=extent, interpolation="bicubic", cmap="inferno", alpha=0.55, vmin=0, vmax=1)
