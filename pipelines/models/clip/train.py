"""Train a CLIP on a run's pictures and captions with negatives; writes a folder of Hugging Face or OpenCLIP."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Generator, Tensor

from ...engine.lock import holds_nothing, locked
from ...engine.storage import files_below, move, staged, write_json
from ...engine.tables import has_table, read_table
from ...features.preprocess import open_images
from ...tables.columns import splits_of
from ...tables.images import Images
from ...tables.pairs import captions_with_negatives, earlier_draws, join_shards
from ..batches import NO_NEGATIVES, NegativeSampler, autocast, shuffled_batches
from ..checkpoint import epoch_seed, write_history
from ..data import KNOWN_WORDS, UnknownWordCounts, concreteness, to_indices, unknown_words_line
from ..device import choose_device
from ..evaluation.retrieval import rank, retrieval_metrics
from ..fit import Line, Say, TrainingStep, fit
from ..losses import contrastive_terms, info_nce
from ..sampling import NegativePool
from ..settings import NEED_NEGATIVES, TRIPLET, ClipConfig
from .towers import Towers, towers

COLUMNS = ("caption_id", "negative", "operator", "family", "draw", "concreteness")  # of negatives
WORD = re.compile(r"\w+|[^\w\s]")


class CaptionedPictures:
    """The C captions of some splits, their I images, and their M negatives.

    Raises ValueError if there are no captions, FileNotFoundError if an image file is missing, naming the first.

    Attributes:
        ids, texts: (C,) of the captions.
        image: (C,) the index of each caption's image.
        files: (I,) the file of each image.
        negatives: (M,) texts, those of a caption together.
        starts: (C + 1,) where the negatives of each caption begin, and the last ones end.
        owner: (M,) the caption of each negative.
        operators, families: (M,) names.
        concreteness: (M,) see `SampledNegatives`.
        first: (M,) bool, True for the first negative that its operator made of the caption.
    """

    def __init__(self, config: ClipConfig, splits: Sequence[str]) -> None:
        """Read the captions of some splits with their negatives, and find their image files."""
        if config.refined:
            table = "refined"
        else:
            # CLIP's own loss needs no negatives, so a run without them is accepted.
            table = "negatives" if has_table(config.run, "negatives") else ""
        shards = captions_with_negatives(
            config.run,
            splits=splits,
            table=table,
            of_captions=("caption_id", "image", "text"),
            of_negatives=COLUMNS,
        )
        captions, negatives, starts = join_shards(shards)
        if not len(captions):
            lacking = " or ".join(splits)
            there = ", ".join(splits_of(config.run))
            raise ValueError(f"{config.run} has no captions of split {lacking}, only of {there}: see --train-split")
        image = captions["image"].combine_chunks().dictionary_encode()
        images = Images(config.images)
        files = {name: images.find(name) for name in image.dictionary.to_pylist()}
        if missing := [name for name, file in files.items() if file is None]:
            raise FileNotFoundError(f"images must have every image of the captions, {config.images} lacks {missing[0]}")
        self.ids = captions["caption_id"].to_pylist()
        self.texts = captions["text"].to_pylist()
        self.files = [config.images / str(file) for file in files.values()]
        self.image = to_indices(image.indices)
        self.starts = torch.from_numpy(starts)
        self.owner = torch.repeat_interleave(torch.arange(len(self.ids)), self.starts.diff())
        self.negatives = negatives["negative"].to_pylist()
        self.operators = negatives["operator"].to_pylist()
        self.families = negatives["family"].to_pylist()
        self.concreteness = concreteness(negatives)
        # Metrics count one negative per operator and caption, so that captions with many do not count more.
        self.first = torch.from_numpy(earlier_draws(negatives) == 0)

    def known_to(self, model: Towers) -> Tensor:
        """(M,) bool, whether a model knows every word that a negative has and its caption lacks."""
        if model.unknown is None or not self.negatives:
            return torch.ones(len(self.negatives), dtype=torch.bool)
        caption_words = [set(words_of(text)) for text in self.texts]
        inserted = [
            set(words_of(negative)) - caption_words[owner]
            for negative, owner in zip(self.negatives, self.owner.tolist(), strict=True)
        ]
        # Each word is tokenized once, alone. A tokenizer refuses an empty list: without words it gets an empty text.
        words = sorted(set[str]().union(*inserted)) or [""]
        tokens = model.tokens(words)
        is_unknown = (tokens == model.unknown).any(1).tolist()
        unknown_words = set(compress(words, is_unknown))
        return torch.tensor([words.isdisjoint(unknown_words) for words in inserted])

    def count_unknown(self, known: Tensor) -> dict[str, UnknownWordCounts]:
        """By operator, how many of its negatives insert a word that the model does not know.

        known: (M,) bool, see `known_to`.
        """
        negatives = Counter(self.operators)
        unknown = Counter(compress(self.operators, (~known).tolist()))
        return {name: UnknownWordCounts(negatives[name], unknown[name]) for name in sorted(negatives)}


class Counterparts(NamedTuple):
    """N pictures in which negatives of captions are true. files: of the pictures. texts: these negatives. owner: (N,)
    the index of the caption that each is a negative of, ascending.
    """

    files: list[Path]
    texts: list[str]
    owner: Tensor


def read_counterparts(config: ClipConfig, ids: Sequence[str]) -> Counterparts:
    """The counterparts of captions with these caption_ids (C,). Raises ValueError if there are none."""
    index = {caption_id: number for number, caption_id in enumerate(ids)}
    counterparts: list[tuple[int, Path, str]] = []  # the number of the caption, the picture, the negative
    for table in read_table(config.run, "counterparts") if has_table(config.run, "counterparts") else ():
        for row in table.to_pylist():
            if row["caption_id"] in index:
                counterparts.append((index[row["caption_id"]], config.images / row["image"], row["text"]))
    if not counterparts:
        raise ValueError(f"{TRIPLET} needs pictures of negatives, {config.run} has none: run negcap counterparts")
    owner, files, texts = zip(*sorted(counterparts), strict=True)
    return Counterparts(list(files), list(texts), torch.tensor(owner))


class SampledCounterparts(NamedTuple):
    """One counterpart of each caption of a batch that has any: rows (n,) among all counterparts, and positions (n,) of
    their captions in the batch.
    """

    rows: Tensor
    positions: Tensor


def sample_counterparts(owner: Tensor, captions: Tensor, generator: Generator) -> SampledCounterparts:
    """A random counterpart of each caption of a batch that has any.

    Args:
        owner: (N,) the caption of each counterpart, ascending.
        captions: (B,) those of the batch.
        generator: of random numbers.
    """
    # As owners ascend, the counterparts of a caption are the rows from start to end.
    start = torch.searchsorted(owner, captions)
    end = torch.searchsorted(owner, captions, right=True)
    positions = (end > start).nonzero()[:, 0]
    # A number is drawn for every caption of the batch, whether or not it has counterparts.
    chance = torch.rand(len(captions), generator=generator)[positions]
    offset = (chance * (end - start)[positions]).long()
    return SampledCounterparts(start[positions] + offset, positions)


class EncodedData:
    """Pictures and texts as the model reads them, on the CPU. Raises ValueError naming a file that is no image.

    pixels: (I, 3, h, w) float16, of the pictures. captions: (C, T) int32, the token ids of the captions. negatives: (M,
    T) int32, those of the negatives.
    """

    def __init__(self, model: Towers, files: Sequence[Path], texts: Sequence[str], negatives: Sequence[str]) -> None:
        # In half precision, as the pixels of all pictures are held in memory.
        parts = [model.pixels(images).astype(np.float16) for images in open_images(files)]
        self.pixels = torch.from_numpy(np.concatenate(parts))
        self.captions = model.tokens(texts).int()
        self.negatives = model.tokens(negatives).int() if negatives else self.captions[:0]


def words_of(text: str) -> list[str]:
    """The words and signs of a text, in lower case."""
    return WORD.findall(text.lower())


def frequent_words(texts: Sequence[str]) -> list[str]:
    """The words and signs that occur at least twice, in lower case, sorted."""
    counts = Counter(word for text in texts for word in words_of(text))
    return sorted(word for word, count in counts.items() if count > 1)


def sampler_of(pairs: CaptionedPictures, known: Tensor, config: ClipConfig) -> NegativeSampler | None:
    """The sampler of negatives for a training; None if its loss has none.

    Args:
        pairs: the captions and their M negatives.
        known: (M,) bool, whether the model knows all words of a negative; others are never sampled.
        config: with the families and operators to sample from.

    Raises:
        ValueError: there is nothing to sample from.
    """
    if config.objective not in NEED_NEGATIVES:
        return None
    names = list(config.negative_families)
    # -1: a family that is not trained on
    family = torch.tensor([names.index(name) if name in names else -1 for name in pairs.families], dtype=torch.int8)
    wanted = torch.tensor([name in config.negative_operators for name in pairs.operators], dtype=torch.bool)
    wanted &= (family >= 0) & known
    pool = NegativePool(pairs.starts, config.negatives, family, wanted)
    if not len(pool):
        raise ValueError(f"{config.objective} needs negatives of the families {', '.join(config.negative_families)}")
    return NegativeSampler(pool, family, torch.arange(len(names)), pairs.concreteness, len(pool))


def batches_of_one_caption_per_image(
    pairs: CaptionedPictures, batch_size: int, generator: Generator
) -> Iterator[Tensor]:
    """Batches of captions (B,) for one epoch: of every image one random caption, the images in random order."""
    shuffled = torch.rand(len(pairs.texts), generator=generator).argsort()
    # the first caption of each image in this random order is a random one of its captions
    _, first_of_image = np.unique(pairs.image[shuffled].numpy(), return_index=True)
    return shuffled_batches(shuffled[first_of_image], batch_size, generator)


WARM_UP = 0.05  # the share of the steps in which the learning rate rises
MAX_NORM = 1.0  # of the gradients
LEAST_PAIRS = 20  # an operator with fewer pairs says too little to count in the mean over operators
LEFT_OUT = ("run", "images", "output", "threads")  # settings of this machine, which training.json does not name


def train_clip(config: ClipConfig, *, overwrite: bool = False, say: Say = print) -> Path:
    """Train a CLIP and return its folder: the weights of the epoch with the highest rsum on validation, its tokenizer
    and image processor as transformers or OpenCLIP reads them, and metrics.jsonl.

    On one machine's CPU the same config gives the same weights. overwrite: replace a model that is there. say: called
    with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run, images or weights that lack
    what the training needs, FileExistsError for a folder that holds something, LockedError for one that another command
    writes, ImportError if a library is missing.
    """
    with locked(config.output):
        return _train_clip(config, overwrite, say)


class ClipBatch(NamedTuple):
    """The captions (B,) of a batch, and the generator that its negatives and counterparts are drawn from."""

    captions: Tensor
    generator: Generator


class ClipTraining:
    """A model, what it is trained on, and what it is validated on."""

    def __init__(self, config: ClipConfig) -> None:
        """Read the pictures and captions to train and to validate on, and load or make the model."""
        self.config = config
        self.device = choose_device(config.device)
        self.pairs = CaptionedPictures(config, config.train_splits)
        self.model = towers(config, frequent_words(self.pairs.texts)).to(self.device)
        self.data = EncodedData(self.model, self.pairs.files, self.pairs.texts, self.pairs.negatives)
        known = self.pairs.known_to(self.model)
        self.unknown_words = self.pairs.count_unknown(known)
        self.negative_sampler = sampler_of(self.pairs, known, config)
        self.counterparts: Counterparts | None = None
        self.loss = config.objective
        if config.objective == TRIPLET:
            self.loss = "negclip"  # TripletCLIP's first term, see `counterparts_loss` for the second
            self.counterparts = read_counterparts(config, self.pairs.ids)
            self.pictures = EncodedData(self.model, self.counterparts.files, self.counterparts.texts, ())
        self.held_out = CaptionedPictures(config, [config.validation_split])
        self.held_out_data = EncodedData(self.model, self.held_out.files, self.held_out.texts, self.held_out.negatives)
        # To the model a negative may be equal to its caption if it has a word that the model does not know.
        self.held_out.first &= self.held_out.known_to(self.model)
        batches = torch.arange(len(self.pairs.files)).split(config.batch_size)
        self.steps_per_epoch = sum(len(batch) > 1 for batch in batches)  # see `shuffled_batches`

    def optimizer(self) -> torch.optim.Optimizer:
        """AdamW; as in CLIP, only matrices decay, not biases, norms and the temperature."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        groups = [
            {"params": [weights for weights in trained if weights.ndim > 1], "weight_decay": self.config.weight_decay},
            {"params": [weights for weights in trained if weights.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.config.learning_rate)

    def learning_rate(self, steps_done: int) -> float:
        """The learning rate of the next step, after so many steps of the whole training."""
        all_steps = self.config.epochs * self.steps_per_epoch
        return self.config.learning_rate * warm_up_and_cosine(steps_done, all_steps)

    def batches(self, epoch: int) -> Iterator[ClipBatch]:
        """The batches of an epoch."""
        generator = Generator().manual_seed(epoch_seed(self.config.seed, epoch))
        self.model.train()
        captions = batches_of_one_caption_per_image(self.pairs, self.config.batch_size, generator)
        return (ClipBatch(rows, generator) for rows in captions)

    def images(self, pixels: Tensor) -> Tensor:
        """Vectors (B, d) of pictures."""
        return self.model.images(pixels.to(self.device).float())

    def texts(self, ids: Tensor) -> Tensor:
        """Vectors (n, d) of texts by their token ids, n > 0."""
        return self.model.texts(ids.long().to(self.device))

    def step(self, batch: ClipBatch) -> TrainingStep:
        """The loss of a batch, a mean over its captions."""
        captions = batch.captions
        sampled = (
            NO_NEGATIVES if self.negative_sampler is None else self.negative_sampler.sample(captions, batch.generator)
        )
        image = self.pairs.image[captions]
        negatives = self.data.negatives[sampled.rows]
        with autocast(self.config.amp, self.device):
            images = self.images(self.data.pixels[image])
            texts = self.texts(self.data.captions[captions])
            negative_vectors = self.texts(negatives) if len(negatives) else images[:0]
        # (B, B), True where two captions of the batch are of one image: each is true of the other's picture, too.
        same_image = (image[:, None] == image[None, :]).to(self.device)
        margin = self.config.concreteness_margin
        terms = contrastive_terms(self.loss, self.model, images, texts, negative_vectors, sampled, same_image, margin)
        if self.counterparts is not None:
            rows, positions = sample_counterparts(self.counterparts.owner, captions, batch.generator)
            if len(rows):
                terms["counterparts"] = self.counterparts_loss(rows, captions[positions])
        return TrainingStep(torch.stack(list(terms.values())).sum() / len(captions))

    def counterparts_loss(self, rows: Tensor, captions: Tensor) -> Tensor:
        """TripletCLIP's second term (Patel et al. 2024): NegCLIP's loss on pictures of negatives, whose true texts are
        the negatives, and whose false texts are the captions. rows: (n,) the counterparts. captions: (n,) of each.
        """
        with autocast(self.config.amp, self.device):
            images = self.images(self.pictures.pixels[rows])
            texts = self.texts(self.pictures.captions[rows])
            false = self.texts(self.data.captions[captions])
        same_image = torch.eye(len(rows), dtype=torch.bool, device=self.device)
        scale = self.model.scale
        return info_nce(scale * images @ texts.T, same_image, scale * images @ false.T)

    def save(self) -> None:
        """Write the model and its settings to a new folder, then move the files to the output.

        The libraries write in place and follow links: a process that is killed meanwhile would leave half a model.
        """
        settings = {name: value for name, value in vars(self.config).items() if name not in LEFT_OUT}
        with staged(self.config.output) as new:
            self.model.save(new)
            write_json(new / "training.json", settings)
            for file in files_below(new):
                move(file, self.config.output / file.relative_to(new))


def _train_clip(config: ClipConfig, overwrite: bool, say: Say) -> Path:
    """Train in a folder that no other command writes."""
    if not holds_nothing(config.output) and not overwrite:
        raise FileExistsError(f"{config.output} holds a model: --overwrite to replace it")
    torch.set_num_threads(config.threads)
    training = ClipTraining(config)
    pairs = training.pairs
    # The sampler leaves out negatives with unknown words; a loss without negatives has no sampler.
    if training.negative_sampler is not None:
        warning = unknown_words_line(training.unknown_words, then=f"they are not trained on; {KNOWN_WORDS}")
        if warning:
            say(warning)

    def validate(line: Line) -> Line:
        """The metrics of the held-out pictures after an epoch."""
        metrics = evaluate(training.model, training.held_out, training.held_out_data, config, training.device)
        return {"validation": metrics}

    def report(history: Sequence[Line]) -> None:
        """Write a line for each epoch so far, and say what the last one brought."""
        write_history(config.output / "metrics.jsonl", list(history))
        line = history[-1]
        best = max(earlier_line["validation"]["rsum"] for earlier_line in history)
        rsum = line["validation"]["rsum"]
        right = line["validation"]["pairs"]["mean"]
        shown = f"rsum {rsum:.1f} (best {best:.1f}), pairs right {right:.1f} %"
        say(f"epoch {line['epoch']}: loss {line['loss']:.3f}, {shown}, {line['seconds']:.0f} s")

    fit(
        {"model": training.model},
        {"optimizer": training.optimizer()},
        training.batches,
        lambda batch, epoch: training.step(batch),
        config.epochs,
        clip=MAX_NORM,
        rate=lambda epoch, done: training.learning_rate(done),
        evaluate=validate,
        select=lambda line: line["validation"]["rsum"],
        keep=lambda line: training.save(),
        report=report,
        say=say,
        about=f"{config.objective}: {len(pairs.texts):,} captions of {len(pairs.files):,} images",
        length=training.steps_per_epoch,
    )
    return config.output


# Retrieval metrics by name, and `pairs`: the share of captions, in %, that beat a negative, by operator, and their mean
ClipMetrics = dict[str, float | dict[str, float]]


@torch.inference_mode()
def evaluate(
    model: Towers, captioned: CaptionedPictures, data: EncodedData, config: ClipConfig, device: torch.device
) -> ClipMetrics:
    """How well a model finds images by captions and the reverse, and tells captions from negatives.

    The entry `pairs` of the result has by operator the percentage of captions that are nearer to their image than the
    first negative that the operator made of them, and the mean of these percentages. Operators with fewer than
    LEAST_PAIRS such captions are left out of the mean, unless all have so few.

    Args:
        model: that is measured.
        captioned: captions, images and negatives; `first` says which negatives count.
        data: the same as tensors.
        config: how many pictures are read at a time.
        device: that computes.
    """
    model.eval()
    images = torch.cat([model.images(part.to(device).float()) for part in data.pixels.split(config.batch_size)])

    def embed(table: Tensor) -> Tensor:
        """The vectors (n, d) of texts by their token ids (n, T); texts are small, so more are read at a time."""
        return torch.cat([model.texts(part.long().to(device)) for part in table.split(4 * config.batch_size)])

    captions = embed(data.captions)
    image_of_caption = captioned.image.to(device)
    metrics = retrieval_metrics(rank(images, captions, image_of_caption))
    first = captioned.first.nonzero()[:, 0]  # (n,) numbers of negatives
    if not len(first):
        return {**metrics, "pairs": {"mean": math.nan}}
    owner = captioned.owner[first].to(device)
    # The caption is nearer than its negative if the image's product with (caption - negative) is positive.
    difference = captions[owner] - embed(data.negatives[first])
    is_right = (images[image_of_caption[owner]] * difference).sum(1).cpu() > 0
    operators = np.array(captioned.operators)[first.numpy()]
    right_by_operator = pd.Series(is_right.numpy()).groupby(operators).agg(["size", "mean"])
    shares = 100 * right_by_operator["mean"]
    has_many = right_by_operator["size"] >= LEAST_PAIRS
    counted = shares[has_many] if has_many.any() else shares
    named_shares = {str(name): float(share) for name, share in shares.items()}
    return {**metrics, "pairs": {**named_shares, "mean": fmean(counted)}}


def warm_up_and_cosine(step: int, steps: int) -> float:
    """The factor of the learning rate at a step, from 0: a linear warm-up, then a cosine to 0."""
    warm_up = max(1, round(WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    progress = (step - warm_up) / max(1, steps - warm_up)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
