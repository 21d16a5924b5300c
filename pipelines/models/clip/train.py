"""Train a CLIP on pictures and captions with negatives, and write it as a folder of Hugging Face."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from negcap.pipelines.models.clip.config import TRIPLET, ClipConfig
from negcap.pipelines.models.clip.data import (
    Counterparts,
    Pairs,
    batches,
    draw_counterparts,
    frequent_words,
    pool_of,
    read_counterparts,
    read_pairs,
    read_pixels,
    sample,
    tokenize,
)
from negcap.pipelines.models.clip.network import LONGEST, Clip, load, tiny
from negcap.pipelines.models.contrastive import NONE, TERMS, compare, info_nce
from negcap.pipelines.models.device import choose_device, deterministic
from negcap.pipelines.models.evaluation.retrieval import rank, retrieval_metrics
from negcap.pipelines.models.training import epoch_seed, write_history

WARM_UP = 0.05
MAX_NORM = 1.0


class Encoded:
    """Pairs as tensors on the CPU: pixels (I, 3, h, w) float16, and token ids of captions (C, T) and negatives."""

    def __init__(self, pairs: Pairs, tokenizer: Any, processor: Any, longest: int) -> None:
        self.pairs, self.padding = pairs, tokenizer.pad_token_id or 0
        self.end = tokenizer.eos_token_id
        self.pixels = read_pixels(pairs.files, processor)
        self.captions = tokenize(tokenizer, pairs.texts, longest)
        self.negatives = tokenize(tokenizer, pairs.negatives, longest)
        self.other_owner: Tensor | None = None
        self.other_pixels, self.other_texts = self.pixels[:0], self.captions[:0]

    def add(self, others: Counterparts, tokenizer: Any, processor: Any, longest: int) -> None:
        """Add pictures in which negatives are true: their captions (N,), pixels (N, 3, h, w) and token ids (N, T)."""
        self.other_owner = others.owner
        self.other_pixels = read_pixels(others.files, processor)
        self.other_texts = tokenize(tokenizer, others.texts, longest)

    def texts(self, model: Clip, table: Tensor, rows: Tensor, device: torch.device) -> Tensor:
        """Unit vectors (n, d) of texts `rows` of a table of token ids."""
        ids = table[rows].long()
        ids = ids[:, : int((ids != self.padding).sum(1).max()) + 1]  # not wider than the longest of these texts
        mask = torch.ones_like(ids)
        if self.padding != self.end:  # CLIP's own tokenizer fills up with the end token, which its mask does not need
            mask = (ids != self.padding).long()
        return model.texts(ids.to(device), mask.to(device))


def train_clip(config: ClipConfig, *, overwrite: bool = False, say: Callable[[str], None] = print) -> Path:
    """Train a CLIP and return its folder: the weights of the epoch with the highest rsum on validation, its tokenizer
    and image processor as transformers reads them, config.json included, and metrics.jsonl.

    On one machine's CPU the same config gives the same weights. overwrite: replace a model that is there. say: called
    with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run, images or weights that lack
    what the training needs, FileExistsError for a folder that holds something, ImportError if a library is missing.
    """
    if config.output.exists() and any(config.output.iterdir()) and not overwrite:
        raise FileExistsError(f"{config.output} holds a model: --overwrite to replace it")
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    pairs = read_pairs(config, config.train_splits)
    pool = pool_of(pairs, config)
    clip, tokenizer, processor = load(config.weights) if config.weights else tiny(config, frequent_words(pairs.texts))
    longest = min(
        tokenizer.model_max_length, getattr(clip.config.get_text_config(), "max_position_embeddings", LONGEST)
    )
    data = Encoded(pairs, tokenizer, processor, longest)
    others = read_counterparts(config, pairs.ids)
    if others is not None:
        data.add(others, tokenizer, processor, longest)
    validation = Encoded(read_pairs(config, [config.validation_split]), tokenizer, processor, longest)
    model = Clip(clip, config).to(device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, config.learning_rate, weight_decay=config.weight_decay)
    steps = config.epochs * sum(len(batch) > 1 for batch in torch.arange(len(pairs.files)).split(config.batch_size))
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    say(f"{config.objective}: {len(pairs.texts):,} captions of {len(pairs.files):,} images")
    best, history = -math.inf, []
    for epoch in range(1, config.epochs + 1):
        began, losses = time.perf_counter(), []
        generator = Generator().manual_seed(epoch_seed(config.seed, epoch))
        model.train()
        with deterministic(device):
            for captions in batches(pairs, config, generator):
                sampled = NONE if pool is None else sample(pool, pairs, captions, config, generator)
                terms = _losses(model, data, captions, sampled, config, device)
                if data.other_owner is not None:
                    drawn = draw_counterparts(data.other_owner, captions, generator)
                    terms["counterparts"] = _of_counterparts(model, data, captions, *drawn, config, device)
                loss = torch.stack(list(terms.values())).sum() / len(captions)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trained, MAX_NORM)
                optimizer.step()
                rates.step()
                losses.append(loss.detach())
            metrics = evaluate(model, validation, config, device)
        value = torch.stack(losses).mean().item()
        if not math.isfinite(value):
            raise ValueError(f"the loss is not finite in epoch {epoch}: lower the learning rate")
        history.append({"epoch": epoch, "loss": value, "validation": metrics})
        if metrics["rsum"] > best:
            best = metrics["rsum"]
            _save(config, model, tokenizer, processor)
        write_history(config.output / "metrics.jsonl", history)
        say(
            f"epoch {epoch}: loss {value:.3f}, rsum {metrics['rsum']:.1f} (best {best:.1f}), pairs right "
            f"{metrics['pairs']['mean']:.1f} %, {time.perf_counter() - began:.0f} s"
        )
    return config.output


def _losses(
    model: Clip, data: Encoded, captions: Tensor, sampled: Any, config: ClipConfig, device: torch.device
) -> dict[str, Tensor]:
    negatives, family = sampled
    image = data.pairs.image[captions]
    with torch.autocast("cuda", torch.bfloat16, enabled=config.amp and device.type == "cuda"):
        images = model.images(data.pixels[image].to(device).float())
        texts = data.texts(model, data.captions, captions, device)
        false = data.texts(model, data.negatives, negatives.rows, device) if len(negatives.rows) else texts[:0]
    same = (image[:, None] == image[None, :]).to(device)
    logits = compare(images, texts, false, negatives, family, model.scale, same)
    return TERMS["negclip" if config.objective == TRIPLET else config.objective](model, logits)


def _of_counterparts(
    model: Clip,
    data: Encoded,
    captions: Tensor,
    drawn: Tensor,
    places: Tensor,
    config: ClipConfig,
    device: torch.device,
) -> Tensor:
    """TripletCLIP's second term (Patel et al. 2024): NegCLIP's loss of the pictures of negatives, a scalar.

    There the negatives are the captions, and the captions are their negatives. drawn: (n,) the counterparts of some
    captions of the batch. places: (n,) where in the batch these captions are.
    """
    with torch.autocast("cuda", torch.bfloat16, enabled=config.amp and device.type == "cuda"):
        images = model.images(data.other_pixels[drawn].to(device).float())
        texts = data.texts(model, data.other_texts, drawn, device)
        false = data.texts(model, data.captions, captions[places], device)
    same = torch.eye(len(drawn), dtype=torch.bool, device=device)
    return info_nce(model.scale * images @ texts.T, same, model.scale * images @ false.T)


@torch.inference_mode()
def evaluate(model: Clip, data: Encoded, config: ClipConfig, device: torch.device) -> dict[str, Any]:
    """Retrieval metrics (see `retrieval_metrics`), and `pairs`: by operator, and as their mean, the percentage of
    captions that are nearer to their image than the first negative that the operator made of them.
    """
    model.eval()
    parts = torch.arange(len(data.pixels)).split(config.batch_size)
    images = torch.cat([model.images(data.pixels[part].to(device).float()) for part in parts])

    def embed(table: Tensor, rows: Tensor) -> Tensor:
        return torch.cat([data.texts(model, table, part, device) for part in rows.split(4 * config.batch_size)])

    pairs, captions = data.pairs, embed(data.captions, torch.arange(len(data.captions)))
    owner = pairs.image.to(device)
    metrics: dict[str, Any] = dict(retrieval_metrics(rank(images, captions, owner)))
    metrics["pairs"] = {}
    first = pairs.first.nonzero()[:, 0]
    if len(first):
        false, of = embed(data.negatives, first), pairs.owner[first].to(device)
        right = (images[owner[of]] * (captions[of] - false)).sum(1).cpu() > 0
        made_by = np.array(pairs.operators)[first.numpy()]
        for name in sorted(set(made_by.tolist())):
            metrics["pairs"][name] = 100 * right[torch.from_numpy(made_by == name)].double().mean().item()
    found = metrics["pairs"].values()
    metrics["pairs"]["mean"] = sum(found) / len(found) if found else math.nan
    return metrics


def _rate(step: int, steps: int) -> float:
    """The factor of the learning rate at a step, from 0: a linear warm-up, then a cosine to 0."""
    warm_up = max(1, round(WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm_up) / max(1, steps - warm_up))))


def _save(config: ClipConfig, model: Clip, tokenizer: Any, processor: Any) -> None:
    for part in (model.clip, tokenizer, processor):
        part.save_pretrained(config.output)
    settings = {
        name: value if isinstance(value, (int, float, str, tuple)) else str(value or "")
        for name, value in vars(config).items()
        if name not in ("run", "images", "output", "threads")
    }
    (config.output / "training.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n", "utf-8")
