"""Train a CLIP on pictures and captions with negatives, and write it as a folder of Hugging Face."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ..batches import NONE, autocast
from ..checkpoint import epoch_seed, write_history
from ..device import choose_device
from ..evaluation.retrieval import rank, retrieval_metrics
from ..fit import Line, Step, fit
from ..losses import contrastive_terms, info_nce
from .config import TRIPLET, ClipConfig
from .data import Encoded, Pairs, batches, draw_counterparts, frequent_words, pool_of, read_counterparts
from .towers import Towers, towers

WARM_UP = 0.05
MAX_NORM = 1.0
LEAST_PAIRS = 20


def train_clip(config: ClipConfig, *, overwrite: bool = False, say: Callable[[str], None] = print) -> Path:
    """Train a CLIP and return its folder: the weights of the epoch with the highest rsum on validation, its tokenizer
    and image processor as transformers or OpenCLIP reads them, and metrics.jsonl.

    On one machine's CPU the same config gives the same weights. overwrite: replace a model that is there. say: called
    with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run, images or weights that lack
    what the training needs, FileExistsError for a folder that holds something, ImportError if a library is missing.
    """
    if config.output.exists() and any(config.output.iterdir()) and not overwrite:
        raise FileExistsError(f"{config.output} holds a model: --overwrite to replace it")
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    pairs = Pairs(config, config.train_splits)
    pool = pool_of(pairs, config)
    model = towers(config, frequent_words([*pairs.texts, *pairs.negatives])).to(device)
    data = Encoded(model, pairs.files, pairs.texts, pairs.negatives)
    kind, pictures = config.objective, None
    if kind == TRIPLET:
        files, texts, of_caption = read_counterparts(config, pairs.ids)
        kind, pictures = "negclip", Encoded(model, files, texts, ())
    held_out = Pairs(config, [config.validation_split])
    validation = Encoded(model, held_out.files, held_out.texts, held_out.negatives)
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

    def step(batch: tuple[Tensor, Generator], epoch: int) -> Step:
        captions, generator = batch
        drawn = NONE if pool is None else pool.sample(captions, generator)
        image = pairs.image[captions]
        images, texts, false = embedded(data.pixels[image], data.captions[captions], data.negatives[drawn.rows])
        same = (image[:, None] == image[None, :]).to(device)
        terms = contrastive_terms(kind, model, images, texts, false, drawn, same, config.concreteness_margin)
        if pictures is not None:
            of, places = draw_counterparts(of_caption, captions, generator)
            # TripletCLIP's second term (Patel et al. 2024): NegCLIP's loss of the pictures of negatives, where the
            # captions are the negatives
            if len(of):
                images, texts, false = embedded(
                    pictures.pixels[of], pictures.captions[of], data.captions[captions[places]]
                )
                same = torch.eye(len(of), dtype=torch.bool, device=device)
                terms["counterparts"] = info_nce(model.scale * images @ texts.T, same, model.scale * images @ false.T)
        return Step(torch.stack(list(terms.values())).sum() / len(captions))

    def report(history: Sequence[Line]) -> None:
        write_history(config.output / "metrics.jsonl", list(history))
        line, best = history[-1], max(its["validation"]["rsum"] for its in history)
        rsum, right = line["validation"]["rsum"], line["validation"]["pairs"]["mean"]
        say(
            f"epoch {line['epoch']}: loss {line['loss']:.3f}, rsum {rsum:.1f} (best {best:.1f}), pairs right "
            f"{right:.1f} %, {line['seconds']:.0f} s"
        )

    def keep(line: Line) -> None:
        model.save(config.output)
        settings = {name: value for name, value in vars(config).items() if name not in LEFT_OUT}
        (config.output / "training.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n", "utf-8")

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
    to their image than the first negative that the operator made of them, and the mean of these percentages.

    Operators with fewer than LEAST_PAIRS such captions are left out of the mean, unless all have so few.
    """
    model.eval()
    images = torch.cat([model.images(part.to(device).float()) for part in data.pixels.split(config.batch_size)])

    def embed(table: Tensor) -> Tensor:
        return torch.cat([model.texts(part.long().to(device)) for part in table.split(4 * config.batch_size)])

    captions, owner = embed(data.captions), pairs.image.to(device)
    metrics: dict[str, Any] = dict(retrieval_metrics(rank(images, captions, owner)))
    metrics["pairs"] = {"mean": math.nan}
    first = pairs.first.nonzero()[:, 0]
    if len(first):
        false, of = embed(data.negatives[first]), pairs.owner[first].to(device)
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
