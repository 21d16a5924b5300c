"""Train a CLIP on a run's pictures and captions with negatives; writes a folder of Hugging Face or OpenCLIP."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ...engine.lock import holds_nothing, locked
from ...engine.storage import files_below, move, staged, write_json
from ...engine.tables import has_table, read_table
from ...features.preprocess import open_images
from ...tables.columns import splits_of
from ...tables.images import Images
from ...tables.pairs import captions_with_negatives, earlier, joined
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


class Pairs:
    """The captions of some splits that have an image file, their images, and their negatives.

    ids: (C,) caption_ids. files: one per image (I). texts: (C,) captions, in the order of their images. image: (C,) the
    index of each caption's image. negatives: (M,) texts. starts: (C + 1,) where those of each caption begin. owner:
    (M,) the caption of each. operators, families: (M,) names. concreteness: (M,) see `Drawn`. first: (M,) bool, the
    first that its operator made of the caption.

    Raises ValueError if there are no captions, FileNotFoundError if an image file is missing, naming the first.
    """

    def __init__(self, config: ClipConfig, splits: Sequence[str]) -> None:
        table = "refined" if config.refined else "negatives" if has_table(config.run, "negatives") else ""
        columns: dict[str, Any] = {"of_captions": ("caption_id", "image", "text"), "of_negatives": COLUMNS}
        captions, rows, starts = joined(captions_with_negatives(config.run, (), splits, table=table, **columns))
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
        self.negatives = rows["negative"].to_pylist()
        self.operators = rows["operator"].to_pylist()
        self.families = rows["family"].to_pylist()
        self.concreteness = concreteness(rows)
        self.first = torch.from_numpy(earlier(rows) == 0)

    def known_to(self, model: Towers) -> Tensor:
        """(M,) bool, whether a model knows every word that a negative inserts, one that its caption lacks."""
        if model.unknown is None or not self.negatives:
            return torch.ones(len(self.negatives), dtype=torch.bool)
        said = [{*WORD.findall(text.lower())} for text in self.texts]
        made = zip(self.negatives, self.owner.tolist(), strict=True)
        inserted = [{*WORD.findall(text.lower())} - said[owner] for text, owner in made]
        words = sorted(set[str]().union(*inserted)) or [""]
        unknown = {word for word, ids in zip(words, model.tokens(words), strict=True) if (ids == model.unknown).any()}
        return torch.tensor([new.isdisjoint(unknown) for new in inserted])

    def inserting(self, known: Tensor) -> dict[str, UnknownWordCounts]:
        """By operator, how many of its negatives insert a word that the model does not know; known: (M,) bool."""
        made = np.array(self.operators)
        unknown = ~known.numpy()
        return {
            str(name): UnknownWordCounts(int((made == name).sum()), int(unknown[made == name].sum()))
            for name in np.unique(made)
        }


def read_counterparts(config: ClipConfig, ids: Sequence[str]) -> tuple[list[Path], list[str], Tensor]:
    """The pictures (N) in which negatives of captions are true, these negatives (N), and the caption of each, (N,).
    ids: the caption_ids. The captions are in ascending order. Raises ValueError if there are none.
    """
    number = {id: at for at, id in enumerate(ids)}
    rows: list[tuple[int, Path, str]] = []
    for table in read_table(config.run, "counterparts") if has_table(config.run, "counterparts") else ():
        mine = (row for row in table.to_pylist() if row["caption_id"] in number)
        rows += [(number[row["caption_id"]], config.images / row["image"], row["text"]) for row in mine]
    if not rows:
        raise ValueError(f"{TRIPLET} needs pictures of negatives, {config.run} has none: run negcap counterparts")
    owner, files, texts = zip(*sorted(rows), strict=True)
    return list(files), list(texts), torch.tensor(owner)


def draw_counterparts(owner: Tensor, captions: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """One counterpart of each caption of a batch (B,) that has any: their numbers (n,), and where in the batch (n,).
    owner: (N,) the caption of each counterpart, in ascending order.
    """
    first = torch.searchsorted(owner, captions)
    last = torch.searchsorted(owner, captions, right=True)
    places = (last > first).nonzero()[:, 0]
    chance = torch.rand(len(captions), generator=generator)[places]
    return first[places] + (chance * (last - first)[places]).long(), places


class Encoded:
    """Pictures and texts as tensors on the CPU: pixels (I, 3, h, w) float16, and token ids of captions (C, T) and of
    negatives (M, T), int32. Raises ValueError naming a file that is no image.
    """

    def __init__(self, towers: Towers, files: Sequence[Path], texts: Sequence[str], negatives: Sequence[str]) -> None:
        parts = [towers.pixels(images).astype(np.float16) for images in open_images(files)]
        self.pixels = torch.from_numpy(np.concatenate(parts))
        self.captions = towers.tokens(texts).int()
        self.negatives = towers.tokens(negatives).int() if negatives else self.captions[:0]


def frequent_words(texts: Sequence[str]) -> list[str]:
    """The words and signs that occur at least twice, in lower case, sorted."""
    counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
    return sorted(word for word, count in counts.items() if count > 1)


def sampler_of(pairs: Pairs, known: Tensor, config: ClipConfig) -> NegativeSampler | None:
    """What draws negatives; None if the loss has none. known: (M,) bool, those whose words the model knows, from which
    it draws. Raises ValueError if there are none.
    """
    if config.objective not in NEED_NEGATIVES:
        return None
    names = list(config.negative_families)
    family = torch.tensor([names.index(name) if name in names else -1 for name in pairs.families], dtype=torch.int8)
    wanted = torch.tensor([name in config.negative_operators for name in pairs.operators], dtype=torch.bool)
    wanted &= (family >= 0) & known
    pool = NegativePool(pairs.starts, config.negatives, family, wanted)
    if not len(pool):
        raise ValueError(f"{config.objective} needs negatives of the families {', '.join(config.negative_families)}")
    return NegativeSampler(pool, family, torch.arange(len(names)), pairs.concreteness, len(pool))


def batches(pairs: Pairs, config: ClipConfig, generator: Generator) -> Iterator[Tensor]:
    """Batches of captions (B,) for one epoch: of every image one random caption, the images in random order."""
    order = torch.rand(len(pairs.texts), generator=generator).argsort()
    by_image, at = pairs.image[order].sort(stable=True)
    chosen = order[at[torch.searchsorted(by_image, torch.arange(len(pairs.files)))]]
    return shuffled_batches(chosen, config.batch_size, generator)


WARM_UP = 0.05
MAX_NORM = 1.0
LEAST_PAIRS = 20


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


def _train_clip(config: ClipConfig, overwrite: bool, say: Say) -> Path:
    if not holds_nothing(config.output) and not overwrite:
        raise FileExistsError(f"{config.output} holds a model: --overwrite to replace it")
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    pairs = Pairs(config, config.train_splits)
    model = towers(config, frequent_words(pairs.texts)).to(device)
    data = Encoded(model, pairs.files, pairs.texts, pairs.negatives)
    known = pairs.known_to(model)
    sampler = sampler_of(pairs, known, config)
    inserting = pairs.inserting(known)
    if sampler is not None and (lost := unknown_words_line(inserting, f"they are not trained on; {KNOWN_WORDS}")):
        say(lost)
    kind = config.objective
    pictures = None
    if kind == TRIPLET:
        files, texts, of_caption = read_counterparts(config, pairs.ids)
        kind = "negclip"
        pictures = Encoded(model, files, texts, ())
    held_out = Pairs(config, [config.validation_split])
    validation = Encoded(model, held_out.files, held_out.texts, held_out.negatives)
    held_out.first &= held_out.known_to(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [  # as in CLIP, only matrices decay, not biases, norms and the temperature
        {"params": [one for one in trained if one.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [one for one in trained if one.ndim <= 1], "weight_decay": 0.0},
    ]
    steps = config.epochs * sum(len(batch) > 1 for batch in torch.arange(len(pairs.files)).split(config.batch_size))

    def embedded(pixels: Tensor, *texts: Tensor) -> list[Tensor]:
        """Vectors of pictures, and of texts by their token ids."""
        with autocast(config, device):
            images = model.images(pixels.to(device).float())
            return [images, *(model.texts(ids.long().to(device)) if len(ids) else images[:0] for ids in texts)]

    def epoch_batches(epoch: int) -> Iterator[tuple[Tensor, Generator]]:
        generator = Generator().manual_seed(epoch_seed(config.seed, epoch))
        model.train()
        return ((captions, generator) for captions in batches(pairs, config, generator))

    def step(batch: tuple[Tensor, Generator], epoch: int) -> TrainingStep:
        captions, generator = batch
        drawn = NO_NEGATIVES if sampler is None else sampler.sample(captions, generator)
        image = pairs.image[captions]
        images, texts, false = embedded(data.pixels[image], data.captions[captions], data.negatives[drawn.rows])
        same = (image[:, None] == image[None, :]).to(device)
        terms = contrastive_terms(kind, model, images, texts, false, drawn, same, config.concreteness_margin)
        if pictures is not None:
            of, places = draw_counterparts(of_caption, captions, generator)
            # TripletCLIP's second term (Patel et al. 2024): NegCLIP's loss of the pictures of negatives, where the
            # captions are the negatives
            if len(of):
                negated = pictures.captions[of], data.captions[captions[places]]
                images, texts, false = embedded(pictures.pixels[of], *negated)
                same = torch.eye(len(of), dtype=torch.bool, device=device)
                terms["counterparts"] = info_nce(model.scale * images @ texts.T, same, model.scale * images @ false.T)
        return TrainingStep(torch.stack(list(terms.values())).sum() / len(captions))

    def report(history: Sequence[Line]) -> None:
        write_history(config.output / "metrics.jsonl", list(history))
        line = history[-1]
        best = max(its["validation"]["rsum"] for its in history)
        rsum = line["validation"]["rsum"]
        right = line["validation"]["pairs"]["mean"]
        shown = f"rsum {rsum:.1f} (best {best:.1f}), pairs right {right:.1f} %"
        say(f"epoch {line['epoch']}: loss {line['loss']:.3f}, {shown}, {line['seconds']:.0f} s")

    def keep(line: Line) -> None:
        settings = {name: value for name, value in vars(config).items() if name not in LEFT_OUT}
        with staged(config.output) as new:  # the libraries write in place, and through links
            model.save(new)
            write_json(new / "training.json", settings)
            for file in files_below(new):
                move(file, config.output / file.relative_to(new))

    fit(
        {"model": model},
        {"optimizer": torch.optim.AdamW(groups, config.learning_rate)},
        epoch_batches,
        step,
        config.epochs,
        clip=MAX_NORM,
        rate=lambda epoch, done: config.learning_rate * _rate(done, steps),
        evaluate=lambda line: {"validation": evaluate(model, held_out, validation, config, device)},
        select=lambda line: line["validation"]["rsum"],
        keep=keep,
        report=report,
        say=say,
        about=f"{config.objective}: {len(pairs.texts):,} captions of {len(pairs.files):,} images",
        length=steps // config.epochs,
    )
    return config.output


LEFT_OUT = ("run", "images", "output", "threads")  # of training.json


@torch.inference_mode()
def evaluate(model: Towers, pairs: Pairs, data: Encoded, config: ClipConfig, device: torch.device) -> dict[str, Any]:
    """Retrieval metrics (see `retrieval_metrics`), and `pairs`: by operator the percentage of captions that are nearer
    to their image than the first negative that the operator made of them, if the model knows its words, and the mean of
    these percentages. Operators with fewer than LEAST_PAIRS such captions are left out of the mean, unless all have so
    few.
    """
    model.eval()
    images = torch.cat([model.images(part.to(device).float()) for part in data.pixels.split(config.batch_size)])

    def embed(table: Tensor) -> Tensor:
        return torch.cat([model.texts(part.long().to(device)) for part in table.split(4 * config.batch_size)])

    captions = embed(data.captions)
    owner = pairs.image.to(device)
    metrics: dict[str, Any] = dict(retrieval_metrics(rank(images, captions, owner)))
    metrics["pairs"] = {"mean": math.nan}
    first = pairs.first.nonzero()[:, 0]
    if len(first):
        false = embed(data.negatives[first])
        of = pairs.owner[first].to(device)
        right = (images[owner[of]] * (captions[of] - false)).sum(1).cpu() > 0
        made_by = np.array(pairs.operators)[first.numpy()]
        names, counts = np.unique(made_by, return_counts=True)
        shares = {str(name): 100 * right[torch.from_numpy(made_by == name)].double().mean().item() for name in names}
        many = names[counts >= LEAST_PAIRS] if counts.max() >= LEAST_PAIRS else names
        metrics["pairs"] = {**shares, "mean": fmean(shares[name] for name in many.tolist())}
    return metrics


def _rate(step: int, steps: int) -> float:
    """The factor of the learning rate at a step, from 0: a linear warm-up, then a cosine to 0."""
    warm_up = max(1, round(WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm_up) / max(1, steps - warm_up))))
