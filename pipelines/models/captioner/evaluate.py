"""The evaluation of a captioner on a split, compared with human captions; writes a table and JSON."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

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
from .generate import CaptionSlots, detokenize, join_words, normalize, stream_keys, write_sentences
from .model import GAN, MLE, Captioner, PaddedSentences, transform_features, weights_file

Words = Sequence[str]
ORDERS = 4  # n-grams of 1 to 4 words
SIGMA = 6.0  # of CIDEr-D's length penalty
WRITERS = ((MLE, "greedy"), (MLE, "beam"), (MLE, "sample"), (GAN, "greedy"), (GAN, "sample"))  # (phase, decoding)
PEOPLE = "people"  # the row of the captions that people wrote


Measures = dict[str, float]  # by name, see COLUMNS


class RankingModel:
    """An embedding model that measures how images are retrieved by captions, one caption for each of I images.

    Raises FileNotFoundError or ValueError for a folder without a model, a model that needs components, or a run without
    features of the model's size.

    Args:
        folder: of the trained model.
        run: whose images are retrieved.
        image_ids: of all images of the run.
        rows: (I,) the images that have captions, as indices.
        device: that computes.
    """

    def __init__(self, folder: Path, run: Path, image_ids: list[str], rows: Tensor, device: torch.device) -> None:
        """Load the model, and embed the images once."""
        self.device = device
        self.model, vocabularies, config = load_model(folder, device)
        if OBJECTIVES[config.model].needs_components:
            raise ValueError(f"ranker must be a model that reads only sentences, this one needs components: {folder}")
        features = features_for(self.model, run, image_ids, config.table)
        self.vocabulary = vocabularies[config.languages[0]]
        self.images = embed_images(self.model.image, features.values, rows, device)

    def measure(self, texts: pa.Array) -> Measures:
        """The text-to-image metrics of captions (I,), and the mean similarity of a caption and its image."""
        vectors = embed_texts(self.model.sentences, self.vocabulary.encode(texts), self.device)
        image_of_text = torch.arange(len(texts)).to(self.device)
        ranks = rank(self.images, vectors, image_of_text, self.model.similarity)
        measures = {name: value for name, value in retrieval_metrics(ranks).items() if name.startswith("t2i")}
        measures["similarity"] = self.model.similarity.pairs(self.images, vectors).mean().item()
        return measures


def ngrams(sentence: Words, n: int) -> list[tuple[str, ...]]:
    """All n-grams of a sentence, in order: of "a dog runs" and n = 2, ("a", "dog") and ("dog", "runs")."""
    return list(zip(*(sentence[start:] for start in range(n)), strict=False))


def distinct(sentences: Sequence[Words], n: int) -> float:
    """distinct-n: the number of distinct n-grams in all sentences, divided by that of all n-grams (Li et al. 2016)."""
    grams = [gram for sentence in sentences for gram in ngrams(sentence, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def bleu(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """Corpus BLEU-1 to BLEU-4 in %. references: for each candidate, one or more sentences."""
    from nltk.translate.bleu_score import corpus_bleu

    # BLEU-n is the geometric mean of the precisions of n-grams of 1 to n words: BLEU-2 has the weights ½ ½ 0 0
    weights = [(1 / n,) * n + (0.0,) * (ORDERS - n) for n in range(1, ORDERS + 1)]
    with warnings.catch_warnings():
        # NLTK warns if there are no n-grams in common, where a score of 0 says enough.
        warnings.simplefilter("ignore")
        return [100 * value for value in corpus_bleu(references, candidates, weights=weights)]


def self_bleu(groups: Sequence[Sequence[Words]]) -> float:
    """The mean BLEU-4, in %, of each sentence against the others of its group (Zhu et al. 2018), 0 without others; low
    means diverse. Smoothed by adding 1 to the counts of 2- to 4-grams, as captions are short.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method2
    scores = []
    for group in groups:
        for number, sentence in enumerate(group):
            others = [other for index, other in enumerate(group) if index != number]
            if others:
                scores.append(sentence_bleu(others, sentence, smoothing_function=smoothing))
    return 100 * sum(scores) / len(scores) if scores else 0.0


def cider_d(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """CIDEr-D of each candidate against its references, 0 to 10 (Vedantam et al. 2015, eq. 3 and section 7).

    n-grams of 1 to 4 words are weighted by inverse document frequency, where a document is all references of one
    candidate. A candidate's weights are clipped to the reference's; a length difference of l words multiplies by
    exp(-l² / 72).
    """
    lengths = range(1, ORDERS + 1)
    documents_with: Counter[tuple[str, ...]] = Counter()  # how many documents have an n-gram
    for document in references:
        grams = {gram for sentence in document for n in lengths for gram in ngrams(sentence, n)}
        documents_with.update(grams)
    # log(documents / documents with the n-gram) as a difference of logs; an n-gram that no reference has counts as 1.
    log_documents = math.log(max(len(references), 1))

    def weigh(sentence: Words, n: int) -> dict[tuple[str, ...], float]:
        """Count times inverse document frequency of each n-gram of a sentence."""
        weights = {}
        for gram, count in Counter(ngrams(sentence, n)).items():
            weights[gram] = count * (log_documents - math.log(max(documents_with[gram], 1)))
        return weights

    def similarity(candidate: Words, reference: Words, n: int) -> float:
        """The cosine of the clipped weights of n-grams, lowered by the difference of the lengths."""
        of_candidate = weigh(candidate, n)
        of_reference = weigh(reference, n)
        norm = math.hypot(*of_candidate.values()) * math.hypot(*of_reference.values())
        if not norm:
            return 0.0
        product = 0.0
        for gram, weight in of_candidate.items():
            reference_weight = of_reference.get(gram, 0.0)
            product += min(weight, reference_weight) * reference_weight
        difference = len(candidate) - len(reference)
        return product / norm * math.exp(-(difference**2) / (2 * SIGMA**2))

    scores = []
    for candidate, document in zip(candidates, references, strict=True):
        similarities = [similarity(candidate, reference, n) for n in lengths for reference in document]
        scores.append(10 * sum(similarities) / len(similarities) if similarities else 0.0)
    return scores


class MeasureColumn(NamedTuple):
    """A column of the table: its title, the name of its measure, and how many decimals are shown."""

    title: str
    measure: str
    decimals: int


COLUMNS = (
    *(MeasureColumn(f"BLEU-{n}", f"bleu_{n}", 1) for n in range(1, ORDERS + 1)),
    MeasureColumn("CIDEr-D", "cider_d", 3),
    MeasureColumn("distinct-1", "distinct_1", 3),
    MeasureColumn("distinct-2", "distinct_2", 3),
    MeasureColumn("words", "vocabulary", 0),
    MeasureColumn("novel %", "novel", 1),
    MeasureColumn("self-BLEU", "self_bleu", 1),
    MeasureColumn("D", "discriminator", 3),
    *(MeasureColumn(name, f"t2i {name}", 1) for name in ("R@1", "R@10", "mean rank")),
)


class CaptionerResult(TypedDict):
    """What measures.json holds: the split, how many images of it were captioned, and the measures by writer."""

    split: str
    images: int
    measures: dict[str, Measures]


def to_markdown(result: CaptionerResult) -> str:
    """One row for human captions and per way of writing, one column per measure that any of them has."""
    measures = result["measures"]
    columns = [column for column in COLUMNS if any(column.measure in row for row in measures.values())]
    rows = []
    for writer, row in measures.items():
        cells = [f"{row[name]:,.{decimals}f}" if name in row else "" for _, name, decimals in columns]
        rows.append([writer, *cells])
    titles = [column.title for column in columns]
    return markdown_table([f"{result['images']:,} images of {result['split']}", *titles], rows)


class ReferenceCaptions:
    """The I images of a split and their human captions, as normalized words.

    rows: (I,) indices among the run's images. ids: their image ids. captions: of each image; the first one is compared
    with, the others are references. train: all captions of the splits `train`, as normalized texts. Raises ValueError
    if no image of the split has features.
    """

    def __init__(
        self, captions: Captions, available: Tensor, train: Sequence[str], config: CaptionerEvaluateConfig
    ) -> None:
        """Choose the captions of a split, and group them by image.

        Args:
            captions: of the run.
            available: (I,) bool, images with features.
            train: the splits that the captioner was trained on.
            config: which split, and how many of its images.
        """
        chosen = captions.to_evaluate(config.split, available, config.limit)
        texts = normalize(captions.texts).to_pylist()
        images = captions.image[chosen].tolist()
        words_by_image: dict[int, list[list[str]]] = {image: [] for image in sorted(set(images))}
        for row, image in zip(chosen.tolist(), images, strict=True):
            words_by_image[image].append(texts[row].split())
        self.rows = torch.tensor(list(words_by_image))
        self.captions = list(words_by_image.values())
        self.ids = [captions.image_ids[image] for image in words_by_image]
        self.train = {texts[row] for row in captions.of_splits(train).tolist()}


def evaluate(folder: Path, run: Path, config: CaptionerEvaluateConfig, output: Path | None = None) -> str:
    """Evaluate a captioner on a run; returns the table as Markdown.

    Raises FileNotFoundError or ValueError for a folder without a captioner, a run without the split, or features of
    another size or backbone than the captioner or the ranker was trained on.

    Args:
        folder: of the captioner.
        run: the folder of the run.
        config: the split, how captions are written, and the model that ranks images by them.
        output: gets measures.json and measures.md; None: `<folder>/evaluation`.
    """
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids)
    captioner = Captioner(weights_file(folder, MLE), device)
    captioner.require_features(features.values, features.backbone)
    people = ReferenceCaptions(captions, features.available, captioner.config.train_splits, config)
    ranker = None
    if config.ranker is not None:
        ranker = RankingModel(config.ranker, run, captions.image_ids, people.rows, device)

    # People are measured as a captioner is: their first caption against the others as references.
    human_groups = [sentences[: config.per_image] for sentences in people.captions]
    human_texts = pa.array([" ".join(sentences[0]) for sentences in people.captions])
    measures = {PEOPLE: measure(human_groups, human_texts, people, ranker)}
    for phase, decoding in WRITERS:
        # A captioner may have been trained without the third phase.
        if phase == GAN and not (folder / f"{GAN}.safetensors").is_file():
            continue
        captioner = Captioner(weights_file(folder, phase), device)
        written = write_captions(captioner, features, people, decoding, config)
        words = [text.split() for text in normalize(written.texts).to_pylist()]
        starts = range(0, len(words), config.per_image)
        groups = [words[start : start + config.per_image] for start in starts]
        first_texts = written.texts.take(pa.array(starts))
        of_writer = measure(groups, first_texts, people, ranker)
        measures[f"{phase} {decoding}"] = {"discriminator": written.discriminator_score, **of_writer}
    result: CaptionerResult = {"split": config.split, "images": len(people.ids), "measures": measures}
    return write_results(output or refuse_link(folder / "evaluation"), "measures", result, to_markdown(result))


class WrittenCaptions(NamedTuple):
    """Captions of I images, those of an image together, and the mean of the discriminator's r for the first ones."""

    texts: pa.Array
    discriminator_score: float


@torch.inference_mode()
def write_captions(
    captioner: Captioner,
    features: ImageFeatures,
    people: ReferenceCaptions,
    decoding: str,
    config: CaptionerEvaluateConfig,
) -> WrittenCaptions:
    """Write config.per_image captions for each image, each with its own noise; none is rejected.

    Args:
        captioner: writes them.
        features: of the run's images.
        people: the images, with what people wrote of them.
        decoding: how words are chosen, see WritingConfig.
        config: of the evaluation.

    Returns:
        The captions, image by image, and how much like people's the discriminator finds the first of each.
    """
    discriminator = captioner.nets.discriminator
    device = discriminator.image.weight.device
    images = len(people.ids)
    values = transform_features(features.values[people.rows], captioner.config.transform).to(device)
    slots = CaptionSlots(
        image=np.repeat(np.arange(images), config.per_image), number=np.tile(np.arange(config.per_image), images)
    )
    writing = WritingConfig.of({**vars(config), "decoding": decoding})
    sentences = write_sentences(captioner, values, stream_keys(config.seed, people.ids), slots, writing)
    first = sentences.select(torch.arange(0, len(sentences.words), config.per_image))
    first_on_device = PaddedSentences(first.words.to(device), first.lengths.to(device))
    score = discriminator(discriminator.images(values), first_on_device).sigmoid().mean().item()
    return WrittenCaptions(detokenize(join_words(sentences, captioner.vocabulary)), score)


def measure(
    groups: Sequence[Sequence[list[str]]], texts: pa.Array, people: ReferenceCaptions, ranker: RankingModel | None
) -> Measures:
    """The measures of captions, by name.

    Args:
        groups: the words of each image's captions. Self-BLEU is over the captions of a group, the other measures are of
            the first one.
        texts: the first caption of each image, (I,), for the ranker.
        people: the human captions. BLEU and CIDEr-D are of the images that have references, if there are any.
        ranker: the model that ranks images by captions; None: images are not ranked.
    """
    sentences = [group[0] for group in groups]
    measures: Measures = {}
    with_references = [
        (sentence, captions[1:])
        for sentence, captions in zip(sentences, people.captions, strict=True)
        if len(captions) > 1
    ]
    if with_references:
        candidates, references = zip(*with_references, strict=True)
        measures |= {f"bleu_{n}": value for n, value in enumerate(bleu(candidates, references), 1)}
        measures["cider_d"] = sum(cider_d(candidates, references)) / len(candidates)
    measures["distinct_1"] = distinct(sentences, 1)
    measures["distinct_2"] = distinct(sentences, 2)
    measures["vocabulary"] = len({word for sentence in sentences for word in sentence})
    # the share of sentences, in %, that are no train caption
    novel = sum(" ".join(sentence) not in people.train for sentence in sentences)
    measures["novel"] = 100 * novel / max(len(sentences), 1)
    if any(len(group) > 1 for group in groups):
        measures["self_bleu"] = self_bleu(groups)
    if ranker is not None:
        measures |= ranker.measure(texts)
    return measures
