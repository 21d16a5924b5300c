"""Saliency: which words of a negative, and which regions of the image, its score depends on (VSE-C, eq. 4, Figure 2).

J is the gradient of the similarity s(i, c') of an image i and a negative c' of one of its captions. The saliency of a
word is the mean of |J| over the numbers of its vector, as a share of the sum over the words of the negative; that of a
region is the sum of |J| over its features.

The edits of a negative are known. So the share of the saliency that falls on the words that they inserted can be
compared with the share that these words have in the number of words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ...tables.pairs import pair_tables
from ..data import pack_sentences, read_captions
from ..device import choose_device, rows_to_device, to_device
from ..encoders import run_packed
from ..features import read_features
from ..figures import format_interval, markdown_table, new_figure, ratios_with_intervals, write_png, write_results
from ..settings import SaliencyConfig
from ..similarities import VectorSimilarity
from ..trainer import load_model
from ..trainer.pictures import covered_part, draw_map, photo_files
from ..vocabulary import word_spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

Span = tuple[int, int]  # the first character, and the one after the last
COLUMNS = ("negative_id", "caption_id", "operator", "negative", "edits")
AT_ONCE = 512  # negatives whose gradients are computed together
SHOWN = 2  # negatives per operator in the picture
CHARACTERS = 96  # per line of a negative in the picture
SHORTEST = 3  # characters that a word takes up at least, so that its share fits below it


def saliency(model: Path, run: Path, photos: Path | None, output: Path, config: SaliencyConfig) -> str:
    """Measure which share of a negative's saliency falls on its edited words, and draw examples as in VSE-C's Figure 2.

    Returns the table of shares as Markdown. Raises FileNotFoundError or ValueError for a folder without a model, a run
    without the split, features or negatives, or a model that does not read its captions with a recurrent net.

    Args:
        model: the folder of the trained model.
        run: the folder of the run.
        photos: the folder of the run's photos, to draw beside the negatives; None: they are not drawn.
        output: gets saliency.json, saliency.md and saliency.png.
        config: which negatives are measured.
    """
    result = find_saliency(model, run, config)
    metrics = summarize(result.negatives, config.seed)
    rows = []
    for name, row in metrics.items():
        share = format_interval(row["share"], row["share interval"])
        beyond = format_interval(row["beyond chance"], row["beyond chance interval"])
        rows.append([name, share, f"{row['chance']:.1f}", beyond, f"{row['negatives']:,}"])
    columns = ["saliency on edited words, %", "mean share", "by chance", "difference", "negatives"]
    text = write_results(output, "saliency", metrics, markdown_table(columns, rows))
    files = {} if photos is None else photo_files(run, photos, read_captions(run).image_ids)
    shown = choose_shown(result.negatives, files)
    # Of each photo the part that the model's features cover, as its regions are drawn over it.
    drawn = {image: covered_part(files[image], run, result.features_table) for image in shown["image"] if files}
    draw_saliency(shown, drawn, output / "saliency.png")
    return text


class SalientNegative(NamedTuple):
    """A negative and what its score depends on.

    operator: the name of the one that made it. image: the index of its image. words, shares, edited: for each word, the
    word itself, its share of the saliency (they sum to 1), and whether an edit inserted it. score: the similarity with
    the image. regions: (R,) the saliency of each region; None if the features have no regions.
    """

    operator: str
    image: int
    words: list[str]
    shares: list[float]
    edited: list[bool]
    score: float
    regions: Tensor | None


class FoundSaliency(NamedTuple):
    """The table of `saliency_table`, and the name of the table of features that the model reads."""

    negatives: pd.DataFrame
    features_table: str


def find_saliency(model_folder: Path, run: Path, config: SaliencyConfig) -> FoundSaliency:
    """The saliency of a run's negatives under a model; negatives without an edited word are left out.

    Raises FileNotFoundError or ValueError for a folder without a model, a run without the split, features or negatives,
    a model that does not read its captions with a recurrent net, or a GPU that is not there.
    """
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    model, vocabularies, trained = load_model(model_folder, device)
    if not hasattr(model.text, "net"):
        raise ValueError(f"saliency needs a model with a recurrent text encoder, {model_folder} is: {trained.model}")
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, trained.table)
    chosen = captions.to_evaluate(config.split, features.available, config.limit)
    image_of = {captions.ids[row]: int(captions.image[row]) for row in chosen.tolist()}
    # Without denials, so that each negative is paired with the caption that its edits are of.
    tables = pair_tables(run, config.operators, columns=COLUMNS, per_operator=1, denials=False)
    rows = [row for table in tables for row in table.to_pylist() if row["caption_id"] in image_of]
    if not rows:
        raise ValueError(f"{run} must have negatives of these captions, has none")
    vocabulary = vocabularies[trained.languages[0]]
    negatives: list[SalientNegative] = []
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        images = torch.tensor([image_of[row["caption_id"]] for row in part])
        encoded = vocabulary.encode([row["negative"] for row in part])
        tokens = to_device(torch.from_numpy(encoded.tokens), device)
        offsets = torch.from_numpy(encoded.offsets)
        part_features = rows_to_device(features.values, images, device)
        gradient = gradients(model, model.similarity, tokens, offsets, part_features)
        lengths = offsets.diff().tolist()
        for number, row in enumerate(part):
            word_gradients = gradient.words[number][1 : lengths[number] - 1]  # without <start> and <end>
            regions = None if gradient.regions is None else gradient.regions[number]
            score = float(gradient.scores[number])
            negatives.append(_salient_negative(row, int(images[number]), score, word_gradients, regions))
    with_edits = [negative for negative in negatives if any(negative.edited)]
    return FoundSaliency(saliency_table(with_edits), trained.table)


def _salient_negative(
    row: Mapping[str, Any], image: int, score: float, word_gradients: Tensor, regions: Tensor | None
) -> SalientNegative:
    """A negative with the shares of its words.

    Args:
        row: the COLUMNS of the negative.
        image: the index of the image.
        score: the similarity with the image.
        word_gradients: (words,) how much the score depends on each word.
        regions: (R,) how much it depends on each region; None if the features have no regions.
    """
    text = row["negative"]
    spans = word_spans(text)
    # a score that depends on no word at all has shares of 0, not NaN
    shares = word_gradients / word_gradients.sum().clamp(min=1e-12)
    return SalientNegative(
        operator=row["operator"],
        image=image,
        words=[text[begin:end] for begin, end in spans],
        shares=shares.tolist(),
        edited=edited_words(spans, row["edits"]),
        score=score,
        regions=regions,
    )


def saliency_table(negatives: Sequence[SalientNegative]) -> pd.DataFrame:
    """The negatives as a table. `share` is the share of the saliency that is on edited words, and `chance` the share
    of the words that are edited.
    """
    table = pd.DataFrame(negatives, columns=list(SalientNegative._fields))
    share_on_edits = [float(np.dot(negative.shares, negative.edited)) for negative in negatives]
    return table.assign(share=share_on_edits, chance=table["edited"].map(np.mean))


class Gradients(NamedTuple):
    """How the similarities of n texts with their images depend on words and regions; all on the CPU.

    scores: (n,) the similarities. words: (n, T) the mean absolute gradient to the vector of each word, 0 after the end
    of a text. regions: (n, R) the sum of the absolute gradients to the features of each region; None if the features
    have no regions.
    """

    scores: Tensor
    words: Tensor
    regions: Tensor | None


def gradients(model: Any, similarity: VectorSimilarity, tokens: Tensor, offsets: Tensor, features: Tensor) -> Gradients:
    """The similarity of n texts with n images, and how much it depends on each word and on each region.

    Args:
        model: with an image encoder `image` and a recurrent text encoder `text`.
        similarity: of their vectors.
        tokens: the numbers of the texts' words, as in EncodedTexts, on the model's device.
        offsets: where each text starts in `tokens`, on the CPU.
        features: (n, D), or (n, R, D) with R regions; on the model's device.
    """
    word_vectors: list[Tensor] = []

    def replace_by_leaf(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Replace the words' vectors by a copy without history: the gradient is taken to it and not to the table, where
        a word that occurs twice has only one vector.
        """
        word_vectors.append(output.detach().requires_grad_())
        return word_vectors[0]

    hook = model.text.embedding.register_forward_hook(replace_by_leaf)
    try:
        # cuDNN's recurrent nets have gradients only in training mode, where their dropout is active
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            images = features.float().requires_grad_()
            rows = torch.arange(len(features))
            text = model.text
            states = run_packed(text.net, text.embedding, text.pooling, tokens, offsets, rows)
            scores = similarity.pairs(model.image(images), text.finish(states))
            word_gradients, image_gradients = torch.autograd.grad(scores.sum(), [word_vectors[0], images])
    finally:
        hook.remove()
    # The net has read the words of all texts packed, those at the same position together; put them back in their rows.
    packed = pack_sentences(offsets, rows)
    lengths = offsets.diff()
    in_order = word_gradients.cpu().abs().mean(1)[packed.positions.argsort()]
    words = in_order.new_zeros(len(rows), int(lengths.max()))
    words[torch.arange(words.shape[1]) < lengths[:, None]] = in_order
    regions = image_gradients.cpu().nan_to_num(0.0).abs().sum(-1) if features.dim() == 3 else None
    return Gradients(scores.detach().cpu(), words, regions)


class EditRow(TypedDict):
    """An edit of a table: characters start to end of the caption become `new`."""

    start: int
    end: int
    new: str


def edited_words(spans: Sequence[Span], edits: Sequence[EditRow]) -> list[bool]:
    """For each word of a negative, whether an edit has inserted it, or a part of it.

    Args:
        spans: of the words, in characters of the negative.
        edits: that make the negative of its caption, in order; their `start` and `end` are in characters of the
            caption.
    """
    inserted: list[Span] = []  # what each edit has inserted, in characters of the negative
    shift = 0  # how much longer the negative is than the caption, up to here
    for edit in edits:
        start = edit["start"] + shift
        inserted.append((start, start + len(edit["new"])))
        shift += len(edit["new"]) - (edit["end"] - edit["start"])

    def is_inserted(start: int, end: int) -> bool:
        """Whether characters `start` to `end` of the negative overlap with what an edit has inserted."""
        return any(start < inserted_end and inserted_start < end for inserted_start, inserted_end in inserted)

    return [is_inserted(start, end) for start, end in spans]


def summarize(negatives: pd.DataFrame, seed: int) -> dict[str, dict[str, Any]]:
    """By operator, the mean share of the saliency that is on edited words, in %, and the share that chance gives.

    Each with the number of negatives, and intervals of the share and of its difference from chance.

    Args:
        negatives: one row each, with operator, image, share and chance.
        seed: of the bootstrap over images.
    """
    metrics = {}
    for name, rows in negatives.assign(beyond=negatives["share"] - negatives["chance"]).groupby("operator"):
        by_image = rows.groupby("image")[["share", "chance", "beyond"]]
        counts = by_image.sum().to_numpy()
        sizes = by_image.size().to_numpy()[:, None]
        share, chance, beyond = ratios_with_intervals(counts, sizes, seed)
        metrics[str(name)] = {
            "negatives": len(rows),
            "share": share.value,
            "beyond chance": beyond.value,
            "chance": chance.value,
            "share interval": list(share.interval),
            "beyond chance interval": list(beyond.interval),
        }
    return metrics


def choose_shown(negatives: pd.DataFrame, photos: Collection[int]) -> pd.DataFrame:
    """The first negatives of each operator, of different images; of those with a photo if there are any photos."""
    seen = negatives[negatives["image"].isin(photos)] if photos else negatives
    first = seen.drop_duplicates(["operator", "image"]).groupby("operator").head(SHOWN)
    return first.sort_values("operator", kind="stable")


def draw_saliency(negatives: pd.DataFrame, photos: Mapping[int, Image], path: Path) -> None:
    """Draw negatives one below the other, with each word as dark as the score depends on it.

    Below each word stands its share in %, in bold if an edit has inserted the word. A photo is brighter where the score
    depends on it more; without regions on a square grid it is drawn as it is.

    Args:
        negatives: one row each, with the fields of SalientNegative, `share` and `chance`.
        photos: the photos, by the number of the image; {}: only text is drawn.
        path: the PNG to write.
    """
    rows = [SalientNegative(*row) for row in negatives[list(SalientNegative._fields)].itertuples(index=False)]
    layouts = [_break_into_lines(row.words) for row in rows]
    least_height = 1.7 if photos else 0.0
    heights = [max(0.75 * (layout[-1].line + 1) + 0.35, least_height) for layout in layouts]
    figure = new_figure(10.8 if photos else 9.0, sum(heights))
    widths = (1.7 if photos else 0.01, 9.0)
    cells = figure.add_gridspec(len(rows), 2, height_ratios=heights, width_ratios=widths)
    numbers = zip(negatives["share"], negatives["chance"], strict=True)
    for row, (negative, layout, (share, chance)) in enumerate(zip(rows, layouts, numbers, strict=True)):
        image_axes = figure.add_subplot(cells[row, 0])
        text_axes = figure.add_subplot(cells[row, 1])
        image_axes.set_axis_off()
        text_axes.set_axis_off()
        if negative.image in photos:
            draw_map(image_axes, photos[negative.image], _as_picture(negative.regions))
        title = f"{negative.operator}: {share:.0%} on {chance:.0%} of the words, similarity {negative.score:.2f}"
        text_axes.set_title(title, fontsize=8, loc="left", color="0.35")
        text_axes.set_xlim(0, CHARACTERS)
        text_axes.set_ylim(-layout[-1].line - 1, 0.1)
        for number, place in enumerate(layout):
            _draw_word(text_axes, negative, number, place)
    write_png(figure, path, 110)


def _as_picture(regions: Tensor | None) -> Tensor | None:
    """The saliency of R regions as a picture (√R, √R); None if they form no square grid.

    Square roots are shown, so that weak regions can be seen beside the strongest.
    """
    if regions is None or not len(regions):
        return None
    side = isqrt(len(regions))
    return regions.clamp(min=1e-12).sqrt().view(side, side) if side * side == len(regions) else None


def _draw_word(axes: Axes, negative: SalientNegative, number: int, place: WordPlace) -> None:
    """Draw a word of a negative in its box, and its share below."""
    word = negative.words[number]
    share = negative.shares[number]
    is_edited = negative.edited[number]
    shade = share / (max(negative.shares) or 1.0)  # all shares are 0 if the score depends on no word
    colour = (1.0, 1.0 - 0.55 * shade, 1.0 - 0.8 * shade)  # white to orange
    box = {"facecolor": colour, "edgecolor": "black" if is_edited else "none", "pad": 2.0, "linewidth": 1.0}
    centred: dict[str, Any] = {"family": "monospace", "ha": "center", "va": "center"}
    x = place.start + max(len(word), SHORTEST) / 2
    y = -place.line - 0.35
    axes.text(x, y, word, fontsize=9, bbox=box, **centred)
    weight = "bold" if is_edited else "normal"
    axes.text(x, y - 0.42, f"{100 * share:.0f}", fontsize=7, color="0.3", weight=weight, **centred)


class WordPlace(NamedTuple):
    """Where a word is drawn: the number of its line, and where it starts there, in characters."""

    line: int
    start: float


def _break_into_lines(words: Sequence[str]) -> list[WordPlace]:
    """Words broken into lines of CHARACTERS."""
    places: list[WordPlace] = []
    line = 0
    start = 0.0
    for word in words:
        width = max(len(word), SHORTEST) + 1.2
        if start + width > CHARACTERS and start > 0:
            line += 1
            start = 0.0
        places.append(WordPlace(line, start))
        start += width
    return places
