"""What a captioner writes of a split's images, measured: against people's captions, by D, and by a judge of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from negcap.pipelines.engine.bounds import at_least, one_of
from negcap.pipelines.engine.shards import write_atomically, write_json
from negcap.pipelines.models.captioner.generate import AT_ONCE, decode
from negcap.pipelines.models.captioner.generator import Sentences
from negcap.pipelines.models.captioner.material import transformed
from negcap.pipelines.models.captioner.measures import bleu, cider_d, distinct, self_bleu
from negcap.pipelines.models.captioner.model import GAN, MLE, Captioner, load, weights_file
from negcap.pipelines.models.captioner.noise import draws, keys
from negcap.pipelines.models.captioner.pictures import draw_samples
from negcap.pipelines.models.captioner.report import to_markdown
from negcap.pipelines.models.captioner.text import bare, plain, prose
from negcap.pipelines.models.checkpoint import load_model
from negcap.pipelines.models.data import Captions, Features, read_captions, read_features
from negcap.pipelines.models.embed import embed_images, embed_sentences
from negcap.pipelines.models.retrieval import rank, retrieval
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.config import DEVICES, cores
from negcap.pipelines.models.trainer.material import device_of
from negcap.pipelines.models.trainer.objectives import OBJECTIVES
from negcap.pipelines.models.vocabulary import Vocabulary

WAYS = ((MLE, "greedy"), (MLE, "beam"), (MLE, "sample"), (GAN, "greedy"), (GAN, "sample"))
PEOPLE = "people"


@dataclass(frozen=True)
class CaptionerEvaluateConfig:
    """What is measured. split: of the run; judge: a model of negcap train, which ranks images for what is written.

    n: captions an image, for self-BLEU; width: of the beam; seed: of the noise; limit: only the first images; images:
    the folder of the pictures, `shown` of which are drawn with what is written. Raises ValueError.
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


class Written(NamedTuple):
    """What was written of I images in one way: words and text of n captions each (I * n,), and D's score (I,)."""

    sentences: Sentences
    words: pa.Array
    discriminator: Tensor


@dataclass(frozen=True)
class Asked:
    """The images asked for: numbers in the run's captions and ids (I,), all ids, and all train captions.

    people: a caption of each image as words; references: the others, against which all is measured.
    """

    rows: Tensor
    ids: list[str]
    image_ids: list[str]
    people: list[list[str]]
    references: list[list[list[str]]]
    train: frozenset[str]


class Judge(NamedTuple):
    """A model of negcap train, and its vectors of the images asked for, (I, d)."""

    model: Any
    vocabulary: Vocabulary
    images: Tensor


def evaluate(folder: Path, run: Path, config: CaptionerEvaluateConfig, output: Path | None = None) -> str:
    """Measure a captioner on a run; the table as Markdown.

    Writes measures.json and measures.md to `output`, by default `<model>/evaluation`, and samples.png where there are
    pictures. Raises FileNotFoundError or ValueError for a folder that is no captioner's, a run without the split, or
    features that are not the captioner's or the judge's.
    """
    torch.set_num_threads(config.threads)
    device = device_of(config.device)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids)
    measures: dict[str, dict[str, float]] = {}
    shown: dict[str, list[str]] = {}
    asked: Asked | None = None
    judge: Judge | None = None
    weights_file(folder, MLE)
    for phase, decoding in WAYS:
        if phase == GAN and not (folder / f"{GAN}.safetensors").is_file():
            continue  # a captioner without a third phase
        captioner = load(weights_file(folder, phase), device)
        asked = asked or ask(captions, features, captioner, config)
        if not measures:
            judge = open_judge(asked, run, config, device)
            measures[PEOPLE] = measure_people(asked, judge, config)
        written = write(captioner, features, asked, decoding, config, device)
        way = f"{phase} {decoding}"
        measures[way] = measure(written, asked, judge, config)
        some = np.arange(min(config.shown, len(asked.ids)))
        shown[way] = prose(written.words.take(pa.array(some * config.n))).to_pylist()
    assert asked is not None
    said = {"split": config.split, "images": len(asked.ids), "measures": measures}
    text = to_markdown(said)
    place = output or folder / "evaluation"
    place.mkdir(parents=True, exist_ok=True)
    write_json(place / "measures.json", said)
    write_atomically(place / "measures.md", (text + "\n").encode())
    if config.images is not None:
        draw_samples(run, config.images, asked.ids[: config.shown], shown, place / "samples.png")
    return text


def ask(captions: Captions, features: Features, captioner: Captioner, config: CaptionerEvaluateConfig) -> Asked:
    """What is asked of a captioner. Raises ValueError for a split without images, or features of another net."""
    chosen = captions.to_measure(captions.of_splits([config.split]))
    chosen = chosen[features.there[captions.image[chosen]]]
    if not len(chosen):
        known = ", ".join(repr(name) for name in captions.splits.unique().to_pylist())
        raise ValueError(f"split must have images with features, {config.split!r} has none: the splits are {known}")
    if features.values.shape[-1] != captioner.features or features.backbone != captioner.backbone:
        raise ValueError(
            f"features must be {captioner.features} numbers of {captioner.backbone!r} as the captioner's, "
            f"are {features.values.shape[-1]} of {features.backbone!r}"
        )
    images = captions.image[chosen].unique()[: config.limit]
    said = bare(captions.texts).to_pylist()
    places = {image: place for place, image in enumerate(images.tolist())}
    references: list[list[list[str]]] = [[] for _ in places]
    for row, image in zip(chosen.tolist(), captions.image[chosen].tolist(), strict=True):
        if image in places:
            references[places[image]].append(said[row].split())
    train = captions.of_splits(captioner.config.train_splits)
    return Asked(
        images,
        [captions.image_ids[image] for image in images.tolist()],
        captions.image_ids,
        [said[0] for said in references],
        [said[1:] for said in references],
        frozenset(said[row] for row in train.tolist()),
    )


@torch.inference_mode()
def write(
    captioner: Captioner,
    features: Features,
    asked: Asked,
    decoding: str,
    config: CaptionerEvaluateConfig,
    device: torch.device,
) -> Written:
    """n captions of each image, each with its own noise, whatever they are like."""
    told, images = captioner.config, len(asked.ids)
    values = transformed(features.values[asked.rows], told.transform).to(device)
    streams = np.repeat(keys(config.seed, asked.ids), config.n)
    numbers = np.tile(np.arange(config.n, dtype=np.uint64), images)
    noise, uniforms = draws(streams, numbers, told.noise, told.words)
    parts = [
        decode(captioner, values[some // config.n], noise[some].to(device), uniforms[some].to(device), decoding,
               config.width)
        for some in torch.arange(images * config.n).split(AT_ONCE)
    ]  # fmt: skip
    sentences = Sentences(*(torch.cat([part[k] for part in parts]) for k in (0, 1)))
    first = sentences.of(torch.arange(images, device=device) * config.n)
    discriminator = captioner.nets.discriminator
    score = discriminator(discriminator.images(values), first).sigmoid()
    return Written(sentences, plain(sentences, captioner.vocabulary), score)


def measure(written: Written, asked: Asked, judge: Judge | None, config: CaptionerEvaluateConfig) -> dict[str, float]:
    """All measures of what was written: of the first caption of each image, but for self-BLEU, which is of all n."""
    texts = bare(prose(written.words)).to_pylist()
    words = [text.split() for text in texts]
    groups = [words[at : at + config.n] for at in range(0, len(words), config.n)]
    first = [group[0] for group in groups]
    return {
        **compared(first, asked),
        **({"self_bleu": self_bleu(groups)} if config.n > 1 else {}),
        "discriminator": written.discriminator.mean().item(),
        **judged(prose(written.words.take(pa.array(np.arange(len(asked.ids)) * config.n))), judge),
    }


def measure_people(asked: Asked, judge: Judge | None, config: CaptionerEvaluateConfig) -> dict[str, float]:
    """The same of a caption that people wrote of each image."""
    groups = [[one, *others][: config.n] for one, others in zip(asked.people, asked.references, strict=True)]
    several = any(len(group) > 1 for group in groups)
    return {
        **compared(asked.people, asked),
        **({"self_bleu": self_bleu(groups)} if several else {}),
        **judged(pa.array([" ".join(one) for one in asked.people]), judge),
    }


def compared(sentences: Sequence[list[str]], asked: Asked) -> dict[str, float]:
    """Measures of sentences, one an image, against people's; novel: the share that no train caption says, in %.

    BLEU and CIDEr-D are of the images with references; without any they are left out.
    """
    both = [(one, others) for one, others in zip(sentences, asked.references, strict=True) if others]
    like: dict[str, float] = {}
    if both:
        ones, references = [one for one, _ in both], [others for _, others in both]
        like = {f"bleu_{n}": value for n, value in enumerate(bleu(ones, references), 1)}
        like["cider_d"] = sum(cider_d(ones, references)) / len(ones)
    return {
        **like,
        "distinct_1": distinct(sentences, 1),
        "distinct_2": distinct(sentences, 2),
        "vocabulary": len({word for sentence in sentences for word in sentence}),
        "novel": 100 * sum(" ".join(sentence) not in asked.train for sentence in sentences) / max(len(sentences), 1),
    }


def open_judge(asked: Asked, run: Path, config: CaptionerEvaluateConfig, device: torch.device) -> Judge | None:
    """The judge with the images asked for, by the features it was trained on; None where none is to judge."""
    if config.judge is None:
        return None
    model, vocabulary, told = load_model(config.judge, device)
    if OBJECTIVES[told.model].components:
        raise ValueError(f"judge must be a model of sentences alone, is of components too: {config.judge}")
    features = read_features(run, asked.image_ids, told.table)
    if features.values.shape[-1] != model.image.linear.in_features:
        raise ValueError(f"{config.judge} must be of features of {features.values.shape[-1]} numbers, is of others")
    return Judge(model, vocabulary, embed_images(model.image, features.values, asked.rows, device))


def judged(texts: pa.Array, judge: Judge | None) -> dict[str, float]:
    """How the judge ranks all images for a text of each (I,): recalls in %, ranks, and the mean similarity."""
    if judge is None:
        return {}
    device = judge.images.device
    encoded = judge.vocabulary.encode(texts)
    written = Texts(torch.from_numpy(encoded.tokens).to(device), torch.from_numpy(encoded.offsets), len(texts), None)
    rows = torch.arange(len(texts))
    sentences = embed_sentences(judge.model.sentences, written, rows)
    found = retrieval(rank(judge.images, sentences, rows.to(device)))
    similarity = (judge.images * sentences).sum(1).mean().item()
    return {**{name: value for name, value in found.items() if name.startswith("t2i")}, "similarity": similarity}
