"""The evaluation of a captioner on a split, compared with human captions; writes a table and JSON."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...engine.storage import refuse_link
from ..data import Captions, read_captions
from ..device import choose_device
from ..evaluation.retrieval import embed_images, embed_texts, rank, retrieval_metrics
from ..features import ImageFeatures, read_features
from ..figures import markdown_table, write_results
from ..settings import CaptionerEvaluateConfig, WritingConfig
from ..trainer import OBJECTIVES, load_model
from ..trainer.evaluate import features_for
from .generate import detokenize, join_words, normalize, stream_keys, write_sentences
from .model import GAN, MLE, Captioner, PaddedSentences, transform_features, weights_file

Judge = Callable[[pa.Array], dict[str, float]]
Words = Sequence[str]
ORDERS = 4  # n-grams of 1 to 4 words
SIGMA = 6.0  # of CIDEr-D's length penalty
WRITERS = ((MLE, "greedy"), (MLE, "beam"), (MLE, "sample"), (GAN, "greedy"), (GAN, "sample"))  # (phase, decoding)
PEOPLE = "people"
# The measure of each column, and its decimals
COLUMNS = {
    **{f"BLEU-{n}": (f"bleu_{n}", 1) for n in range(1, ORDERS + 1)},
    "CIDEr-D": ("cider_d", 3),
    "distinct-1": ("distinct_1", 3),
    "distinct-2": ("distinct_2", 3),
    "words": ("vocabulary", 0),
    "novel %": ("novel", 1),
    "self-BLEU": ("self_bleu", 1),
    "D": ("discriminator", 3),
    **{name: (f"t2i {name}", 1) for name in ("R@1", "R@10", "mean rank")},
}


def load_judge(folder: Path, run: Path, image_ids: list[str], rows: Tensor, device: torch.device) -> Judge:
    """A function that measures how an embedding model retrieves images by captions, one caption per image (I,).

    It returns text-to-image metrics, and the mean similarity of a caption and its image. folder: of the model.
    image_ids: of all images of the run. rows: (I,) those that have captions. Raises FileNotFoundError or ValueError for
    a folder without a model, a model that needs components, or a run without features of the model's size.
    """
    model, vocabularies, config = load_model(folder, device)
    if OBJECTIVES[config.model].needs_components:
        raise ValueError(f"judge must be a model that reads only sentences, this one needs components: {folder}")
    features = features_for(model, run, image_ids, config.table)
    images = embed_images(model.image, features.values, rows, device)

    def judge(texts: pa.Array) -> dict[str, float]:
        encoded = vocabularies[config.languages[0]].encode(texts)
        each = torch.arange(len(texts))
        vectors = embed_texts(model.sentences, encoded, device)
        metrics = retrieval_metrics(rank(images, vectors, each.to(device), model.similarity))
        similarity = model.similarity.pairs(images, vectors).mean().item()
        return {**{name: metrics[name] for name in metrics if name.startswith("t2i")}, "similarity": similarity}

    return judge


def ngrams(sentence: Words, n: int) -> list[tuple[str, ...]]:
    """All n-grams of a sentence, in order."""
    return list(zip(*(sentence[start:] for start in range(n)), strict=False))


def distinct(sentences: Sequence[Words], n: int) -> float:
    """distinct-n: number of distinct n-grams divided by that of all n-grams, in all sentences (Li et al. 2016)."""
    grams = [gram for sentence in sentences for gram in ngrams(sentence, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def bleu(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """Corpus BLEU-1 to BLEU-4 in %; references: one or more sentences per candidate."""
    from nltk.translate.bleu_score import corpus_bleu

    weights = [tuple(1 / n if k < n else 0.0 for k in range(ORDERS)) for n in range(1, ORDERS + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no n-grams in common: the score is 0
        return [100 * value for value in corpus_bleu(references, candidates, weights=weights)]


def self_bleu(groups: Sequence[Sequence[Words]]) -> float:
    """The mean BLEU-4, in %, of each sentence against the others of its group (Zhu et al. 2018), 0 without others; low
    means diverse. Smoothed by adding 1 to the counts of 2- to 4-grams, as captions are short.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method2
    several = (list(group) for group in groups if len(group) > 1)
    pairs = [(group[:at] + group[at + 1 :], one) for group in several for at, one in enumerate(group)]
    scores = [sentence_bleu(others, one, smoothing_function=smoothing) for others, one in pairs]
    return 100 * sum(scores) / len(scores) if scores else 0.0


def cider_d(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """CIDEr-D of each candidate against its references, 0 to 10 (Vedantam et al. 2015, eq. 3 and section 7). n-grams of
    1 to 4 words are weighted by inverse document frequency, where a document is all references of one candidate. A
    candidate's counts are clipped to the reference's; a length difference of l words multiplies by exp(-l² / 72).
    """
    frequency: Counter[tuple[str, ...]] = Counter()
    for group in references:
        frequency.update({gram for one in group for n in range(1, ORDERS + 1) for gram in ngrams(one, n)})
    log_documents = math.log(max(len(references), 1))

    def vector(sentence: Words, n: int) -> dict[tuple[str, ...], float]:
        counts = Counter(ngrams(sentence, n))
        return {gram: count * (log_documents - math.log(max(frequency[gram], 1))) for gram, count in counts.items()}

    def similarity(candidate: Words, reference: Words, n: int) -> float:
        given = vector(candidate, n)
        true = vector(reference, n)
        shared = sum(min(value, true.get(gram, 0.0)) * true.get(gram, 0.0) for gram, value in given.items())
        norm = math.hypot(*given.values()) * math.hypot(*true.values())
        return shared / norm * math.exp(-((len(candidate) - len(reference)) ** 2) / (2 * SIGMA**2)) if norm else 0.0

    scores = []
    for candidate, group in zip(candidates, references, strict=True):
        each = [similarity(candidate, one, n) for n in range(1, ORDERS + 1) for one in group]
        scores.append(10 * sum(each) / len(each) if each else 0.0)
    return scores


def to_markdown(result: Mapping[str, Any]) -> str:
    """One row for human captions and per way of writing, one column per measure that any of them has."""
    measures = result["measures"]
    columns = {title: of for title, of in COLUMNS.items() if any(of[0] in row for row in measures.values())}
    rows = []
    for writer, row in measures.items():
        cells = [f"{row[name]:,.{decimals}f}" if name in row else "" for name, decimals in columns.values()]
        rows.append([writer, *cells])
    return markdown_table([f"{result['images']:,} images of {result['split']}", *columns], rows)


class ReferenceCaptions:
    """The I images of a split and their human captions, as normalized words. rows: (I,) indices among the run's images.
    ids: their image ids. captions: of each image; the first one is compared with, the others are references. train: all
    captions of the splits `train`, as normalized texts. Raises ValueError if no image of the split has features.
    """

    def __init__(
        self, captions: Captions, available: Tensor, train: Sequence[str], config: CaptionerEvaluateConfig
    ) -> None:
        chosen = captions.to_evaluate(config.split, available, config.limit)
        texts = normalize(captions.texts).to_pylist()
        images = captions.image[chosen].tolist()
        sentences: dict[int, list[list[str]]] = {image: [] for image in sorted(set(images))}
        for row, image in zip(chosen.tolist(), images, strict=True):
            sentences[image].append(texts[row].split())
        self.rows = torch.tensor(list(sentences))
        self.captions = list(sentences.values())
        self.ids = [captions.image_ids[image] for image in sentences]
        self.train = {texts[row] for row in captions.of_splits(train).tolist()}


def evaluate(folder: Path, run: Path, config: CaptionerEvaluateConfig, output: Path | None = None) -> str:
    """Evaluate a captioner on a run; returns the table as Markdown. Writes measures.json and measures.md to `output`
    (None: `<folder>/evaluation`). Raises FileNotFoundError or ValueError for a folder without a captioner, a run
    without the split, or features of another size or backbone than the captioner or the judge was trained on.
    """
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids)
    captioner = Captioner(weights_file(folder, MLE), device)
    captioner.require_features(features.values, features.backbone)
    reference = ReferenceCaptions(captions, features.available, captioner.config.train_splits, config)
    judge = None
    if config.ranker is not None:
        judge = load_judge(config.ranker, run, captions.image_ids, reference.rows, device)
    groups = [own[: config.per_image] for own in reference.captions]
    measures = {PEOPLE: measure(groups, pa.array([" ".join(own[0]) for own in groups]), reference, judge)}
    for phase, decoding in WRITERS:
        if phase == GAN and not (folder / f"{GAN}.safetensors").is_file():
            continue  # a captioner without a third phase
        captioner = Captioner(weights_file(folder, phase), device)
        texts, score = write_captions(captioner, features, reference, decoding, config)
        words = [text.split() for text in normalize(texts).to_pylist()]
        groups = [words[at : at + config.per_image] for at in range(0, len(words), config.per_image)]
        first = texts.take(pa.array(np.arange(len(groups)) * config.per_image))
        measures[f"{phase} {decoding}"] = {"discriminator": score, **measure(groups, first, reference, judge)}
    result = {"split": config.split, "images": len(reference.ids), "measures": measures}
    return write_results(output or refuse_link(folder / "evaluation"), "measures", result, to_markdown(result))


@torch.inference_mode()
def write_captions(
    captioner: Captioner,
    features: ImageFeatures,
    people: ReferenceCaptions,
    decoding: str,
    config: CaptionerEvaluateConfig,
) -> tuple[pa.Array, float]:
    """Write config.per_image captions per image, each with its own noise; none is rejected. Returns them, those of
    an image together, and the mean of the discriminator's r for the first ones.
    """
    discriminator = captioner.nets.discriminator
    images = len(people.ids)
    device = discriminator.image.weight.device
    values = transform_features(features.values[people.rows], captioner.config.transform).to(device)
    wanted = np.repeat(np.arange(images), config.per_image), np.tile(np.arange(config.per_image), images)
    writing = WritingConfig.of({**vars(config), "decoding": decoding})
    sentences = write_sentences(captioner, values, stream_keys(config.seed, people.ids), wanted, writing)
    first = PaddedSentences(*(part[:: config.per_image].to(device) for part in sentences))
    score = discriminator(discriminator.images(values), first).sigmoid()
    return detokenize(join_words(sentences, captioner.vocabulary)), score.mean().item()


def measure(
    groups: Sequence[Sequence[list[str]]], texts: pa.Array, reference: ReferenceCaptions, judge: Judge | None
) -> dict[str, float]:
    """The measures of captions, by name: self-BLEU over the captions of each image, the others of its first one.

    groups: the words of each image's captions. texts: the first caption of each, (I,). BLEU and CIDEr-D are of the
    images with references, if there are any. novel: the share of sentences, in %, that are no train caption.
    """
    sentences = [group[0] for group in groups]
    measures: dict[str, float] = {}
    if pairs := [(one, own[1:]) for one, own in zip(sentences, reference.captions, strict=True) if len(own) > 1]:
        ones, references = zip(*pairs, strict=True)
        measures = {f"bleu_{n}": value for n, value in enumerate(bleu(ones, references), 1)}
        measures["cider_d"] = sum(cider_d(ones, references)) / len(ones)
    measures["distinct_1"], measures["distinct_2"] = (distinct(sentences, n) for n in (1, 2))
    measures["vocabulary"] = len({word for sentence in sentences for word in sentence})
    novel = sum(" ".join(sentence) not in reference.train for sentence in sentences)
    measures["novel"] = 100 * novel / max(len(sentences), 1)
    if any(len(group) > 1 for group in groups):
        measures["self_bleu"] = self_bleu(groups)
    return {**measures, **(judge(texts) if judge else {})}
