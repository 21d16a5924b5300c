"""The evaluation of a captioner on a split, compared with human captions; writes a table, JSON and sample captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...engine.bounds import at_least, one_of
from ...engine.storage import write_atomically, write_json
from ..captions import Captions, read_captions
from ..config import DEVICES, cores
from ..device import choose_device
from ..features import Features, read_features
from .config import WritingConfig
from .generate import write_sentences
from .generator import PaddedSentences
from .judge import Judge, load_judge, retrieval_by_captions
from .measures import bleu, cider_d, distinct, self_bleu
from .model import (
    GAN,
    MLE,
    Captioner,
    load_captioner,
    transform_features,
    weights_file,
)
from .noise import stream_keys
from .report import to_markdown
from .samples import draw_samples
from .text import detokenize, join_words, normalize

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
