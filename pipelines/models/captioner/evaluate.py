"""The evaluation of a captioner on a split, compared with human captions; writes a table, JSON and sample captions."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...engine.bounds import at_least, one_of
from ...engine.storage import write_atomically, write_json
from ..captions import Captions, read_captions
from ..config import DEVICES, cores
from ..device import choose_device
from ..evaluation.retrieval import embed_images, embed_sentences, rank, retrieval_metrics
from ..features import Features, read_features
from ..figures import markdown_table
from ..trainer.objectives import OBJECTIVES, load_model
from ..vectors import Texts
from ..vocabulary import WordVocabulary
from .config import WritingConfig
from .generate import draw_samples, write_sentences
from .generator import PaddedSentences
from .model import (
    GAN,
    MLE,
    Captioner,
    detokenize,
    join_words,
    load_captioner,
    normalize,
    stream_keys,
    transform_features,
    weights_file,
)


class Judge(NamedTuple):
    """An embedding model trained by `negcap train`, and its vectors (I, d) of the images that have captions."""

    model: Any
    vocabulary: WordVocabulary
    images: Tensor


def load_judge(folder: Path, run: Path, image_ids: list[str], rows: Tensor, device: torch.device) -> Judge:
    """Load a judge from a model's folder; image_ids: of all images of the run; rows: (I,) those it embeds.

    Raises FileNotFoundError or ValueError for a folder without a model, a model that needs components, or a run without
    features of the model's size.
    """
    model, vocabulary, config = load_model(folder, device)
    if OBJECTIVES[config.model].needs_components:
        raise ValueError(f"judge must be a model that reads only sentences, this one needs components: {folder}")
    features = read_features(run, image_ids, config.table)
    if features.values.shape[-1] != model.image.linear.in_features:
        raise ValueError(f"judge must take features of {features.values.shape[-1]} numbers, {folder} does not")
    return Judge(model, vocabulary, embed_images(model.image, features.values, rows, device))


def retrieval_by_captions(texts: pa.Array, judge: Judge) -> dict[str, float]:
    """Text-to-image metrics of one caption per image (I,), and the mean similarity of a caption and its image."""
    device = judge.images.device
    encoded = judge.vocabulary.encode(texts)
    captions = Texts(torch.from_numpy(encoded.tokens).to(device), torch.from_numpy(encoded.offsets), len(texts))
    rows = torch.arange(len(texts))
    vectors = embed_sentences(judge.model.sentences, captions, rows)
    metrics = retrieval_metrics(rank(judge.images, vectors, rows.to(device), judge.model.similarity))
    similarity = judge.model.similarity.pairs(judge.images, vectors).mean().item()
    return {**{name: value for name, value in metrics.items() if name.startswith("t2i")}, "similarity": similarity}


Words = Sequence[str]
ORDERS = 4  # n-grams of 1 to 4 words
SIGMA = 6.0  # of CIDEr-D's length penalty


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
    """The mean BLEU-4, in %, of each sentence against the others of its group (Zhu et al. 2018); low means diverse.

    Smoothed by adding 1 to the counts of 2- to 4-grams, as captions are short. Groups of one sentence are ignored; 0 if
    there are no others.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method2
    scores = [
        sentence_bleu([other for k, other in enumerate(group) if k != at], sentence, smoothing_function=smoothing)
        for group in groups
        if len(group) > 1
        for at, sentence in enumerate(group)
    ]
    return 100 * sum(scores) / len(scores) if scores else 0.0


def cider_d(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """CIDEr-D of each candidate against its references, 0 to 10 (Vedantam et al. 2015, eq. 3 and section 7).

    n-grams of 1 to 4 words are weighted by inverse document frequency, where a document is all references of one
    candidate. A candidate's counts are clipped to the reference's; a length difference of l words multiplies by exp(-l²
    / 72).
    """
    frequency: Counter[tuple[str, ...]] = Counter()
    for group in references:
        frequency.update({gram for one in group for n in range(1, ORDERS + 1) for gram in ngrams(one, n)})
    log_documents = math.log(max(len(references), 1))
    return [_cider_d(one, group, frequency, log_documents) for one, group in zip(candidates, references, strict=True)]


def _cider_d(
    candidate: Words, group: Sequence[Words], frequency: Counter[tuple[str, ...]], log_documents: float
) -> float:
    def vector(sentence: Words, n: int) -> dict[tuple[str, ...], float]:
        counts = Counter(ngrams(sentence, n))
        return {gram: count * (log_documents - math.log(max(frequency[gram], 1))) for gram, count in counts.items()}

    total = 0.0
    for n in range(1, ORDERS + 1):
        given = vector(candidate, n)
        length = math.sqrt(sum(value**2 for value in given.values()))
        for one in group:
            true = vector(one, n)
            norm = length * math.sqrt(sum(value**2 for value in true.values()))
            if norm:
                shared = sum(min(value, true.get(gram, 0.0)) * true.get(gram, 0.0) for gram, value in given.items())
                total += shared / norm * math.exp(-((len(candidate) - len(one)) ** 2) / (2 * SIGMA**2))
    return 10 * total / (ORDERS * len(group)) if group else 0.0


COLUMNS = {
    "BLEU-1": "bleu_1",
    "BLEU-2": "bleu_2",
    "BLEU-3": "bleu_3",
    "BLEU-4": "bleu_4",
    "CIDEr-D": "cider_d",
    "distinct-1": "distinct_1",
    "distinct-2": "distinct_2",
    "words": "vocabulary",
    "novel %": "novel",
    "self-BLEU": "self_bleu",
    "D": "discriminator",
    "R@1": "t2i R@1",
    "R@10": "t2i R@10",
    "mean rank": "t2i mean rank",
}


DECIMALS = {"vocabulary": 0, "discriminator": 3, "distinct_1": 3, "distinct_2": 3, "cider_d": 3}  # all others: 1


def to_markdown(result: Mapping[str, Any]) -> str:
    """One row for human captions and per way of writing, one column per measure that any of them has."""
    measures = result["measures"]
    columns = {title: name for title, name in COLUMNS.items() if any(name in row for row in measures.values())}
    rows = [[writer, *(_cell(name, row) for name in columns.values())] for writer, row in measures.items()]
    return markdown_table([f"{result['images']:,} images of {result['split']}", *columns], rows)


def _cell(name: str, row: Mapping[str, float]) -> str:
    return f"{row[name]:,.{DECIMALS.get(name, 1)}f}" if name in row else ""


WRITERS = ((MLE, "greedy"), (MLE, "beam"), (MLE, "sample"), (GAN, "greedy"), (GAN, "sample"))  # (phase, decoding)
PEOPLE = "people"


@dataclass(frozen=True)
class CaptionerEvaluateConfig:
    """How a captioner is evaluated. Raises ValueError for a value out of its range.

    split: of the run. limit: use only this many first images of it; None: all. judge: the folder of an embedding model
    that retrieves images by generated captions; None: no such metrics. n: captions per image, for self-BLEU. width: of
    the beam. seed: of the noise. images: the folder of the images, the first `shown` of which are drawn with their
    captions; None: no drawing.
    """

    split: str = "test"
    judge: Path | None = None
    n: int = 3
    width: int = 3
    seed: int = 0
    limit: int | None = None
    images: Path | None = None
    shown: int = 6
    device: str = "auto"
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        one_of(self, {"device": DEVICES})
        at_least(self, 1, ("n", "width", "limit", "shown", "threads"))


@dataclass(frozen=True)
class ReferenceCaptions:
    """I images and their human captions, as normalized words.

    rows: (I,) indices among the run's images. ids: their image ids. human: one caption per image. references: the other
    captions per image. train: all captions of the captioner's train splits, as normalized texts.
    """

    rows: Tensor
    ids: list[str]
    human: list[list[str]]
    references: list[list[list[str]]]
    train: frozenset[str]


class GeneratedCaptions(NamedTuple):
    """n generated captions for each of I images; texts: I * n, those of an image together.

    discriminator: (I,) the discriminator's probability r for the first caption of each image.
    """

    texts: pa.Array
    discriminator: Tensor


def evaluate(folder: Path, run: Path, config: CaptionerEvaluateConfig, output: Path | None = None) -> str:
    """Evaluate a captioner on a run; returns the table as Markdown.

    Writes measures.json and measures.md to `output` (None: `<folder>/evaluation`), and samples.png if config.images is
    set. Raises FileNotFoundError or ValueError for a folder without a captioner, a run without the split, or features
    of another size or backbone than the captioner or the judge was trained on.
    """
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids)
    captioner = load_captioner(weights_file(folder, MLE), device)
    captioner.require_features(features.values, features.backbone)
    reference = read_references(captions, features, captioner, config)
    judge = None
    if config.judge is not None:
        judge = load_judge(config.judge, run, captions.image_ids, reference.rows, device)
    measures = {PEOPLE: measure_people(reference, judge, config)}
    samples: dict[str, list[str]] = {}
    for phase, decoding in WRITERS:
        if phase == GAN and not (folder / f"{GAN}.safetensors").is_file():
            continue  # a captioner without a third phase
        if phase == GAN:
            captioner = load_captioner(weights_file(folder, GAN), device)
        written = write_captions(captioner, features, reference, decoding, config)
        measures[f"{phase} {decoding}"] = measure(written, reference, judge, config)
        shown = np.arange(min(config.shown, len(reference.ids))) * config.n
        samples[f"{phase} {decoding}"] = written.texts.take(pa.array(shown)).to_pylist()
    result = {"split": config.split, "images": len(reference.ids), "measures": measures}
    text = to_markdown(result)
    output = output or folder / "evaluation"
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / "measures.json", result)
    write_atomically(output / "measures.md", (text + "\n").encode())
    if config.images is not None:
        draw_samples(run, config.images, reference.ids[: config.shown], samples, output / "samples.png")
    return text


def read_references(
    captions: Captions, features: Features, captioner: Captioner, config: CaptionerEvaluateConfig
) -> ReferenceCaptions:
    """The images of the split and their captions. Raises ValueError if no image of the split has features."""
    chosen = captions.to_evaluate(config.split, features.available, config.limit)
    images = captions.image[chosen].unique()
    texts = normalize(captions.texts).to_pylist()
    sentences: dict[int, list[list[str]]] = {image: [] for image in images.tolist()}
    for row, image in zip(chosen.tolist(), captions.image[chosen].tolist(), strict=True):
        sentences[image].append(texts[row].split())
    train = captions.of_splits(captioner.config.train_splits)
    return ReferenceCaptions(
        images,
        [captions.image_ids[image] for image in sentences],
        [own[0] for own in sentences.values()],
        [own[1:] for own in sentences.values()],
        frozenset(texts[row] for row in train.tolist()),
    )


@torch.inference_mode()
def write_captions(
    captioner: Captioner,
    features: Features,
    reference: ReferenceCaptions,
    decoding: str,
    config: CaptionerEvaluateConfig,
) -> GeneratedCaptions:
    """Write config.n captions per image, each with its own noise; none is rejected."""
    discriminator = captioner.nets.discriminator
    images, device = len(reference.ids), discriminator.image.weight.device
    values = transform_features(features.values[reference.rows], captioner.config.transform).to(device)
    wanted = np.repeat(np.arange(images), config.n), np.tile(np.arange(config.n), images)
    writing = WritingConfig(config.n, config.seed, decoding, config.width)
    sentences = write_sentences(captioner, values, stream_keys(config.seed, reference.ids), wanted, writing)
    first = PaddedSentences(*(part[:: config.n].to(device) for part in sentences))
    score = discriminator(discriminator.images(values), first).sigmoid()
    return GeneratedCaptions(detokenize(join_words(sentences, captioner.vocabulary)), score)


def measure(
    written: GeneratedCaptions, reference: ReferenceCaptions, judge: Judge | None, config: CaptionerEvaluateConfig
) -> dict[str, float]:
    """All measures of generated captions, by name: self-BLEU over the n of each image, the others of the first one."""
    words = [text.split() for text in normalize(written.texts).to_pylist()]
    groups = [words[at : at + config.n] for at in range(0, len(words), config.n)]
    first = written.texts.take(pa.array(np.arange(len(reference.ids)) * config.n))
    return {
        **measure_against(reference, [group[0] for group in groups]),
        **({"self_bleu": self_bleu(groups)} if config.n > 1 else {}),
        "discriminator": written.discriminator.mean().item(),
        **(retrieval_by_captions(first, judge) if judge else {}),
    }


def measure_people(
    reference: ReferenceCaptions, judge: Judge | None, config: CaptionerEvaluateConfig
) -> dict[str, float]:
    """The measures of one human caption per image, without the discriminator's; self-BLEU over up to n per image."""
    groups = [[one, *others][: config.n] for one, others in zip(reference.human, reference.references, strict=True)]
    several = any(len(group) > 1 for group in groups)
    texts = pa.array([" ".join(one) for one in reference.human])
    return {
        **measure_against(reference, reference.human),
        **({"self_bleu": self_bleu(groups)} if several else {}),
        **(retrieval_by_captions(texts, judge) if judge else {}),
    }


def measure_against(reference: ReferenceCaptions, sentences: Sequence[list[str]]) -> dict[str, float]:
    """Measures of one sentence per image against human captions, by name.

    BLEU and CIDEr-D use the images with references, and are left out if there are none. novel: the share of sentences,
    in %, that are no train caption.
    """
    pairs = [(one, others) for one, others in zip(sentences, reference.references, strict=True) if others]
    similarity: dict[str, float] = {}
    if pairs:
        ones, references = [one for one, _ in pairs], [others for _, others in pairs]
        similarity = {f"bleu_{n}": value for n, value in enumerate(bleu(ones, references), 1)}
        similarity["cider_d"] = sum(cider_d(ones, references)) / len(ones)
    novel = sum(" ".join(sentence) not in reference.train for sentence in sentences)
    return {
        **similarity,
        "distinct_1": distinct(sentences, 1),
        "distinct_2": distinct(sentences, 2),
        "vocabulary": len({word for sentence in sentences for word in sentence}),
        "novel": 100 * novel / max(len(sentences), 1),
    }
