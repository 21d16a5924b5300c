"""CLIP's training with negative captions by the trainers of OpenCLIP and transformers, or in a loop of one's own.

    >>> batches = negcap.Negatives(run, negatives=4, images="photos", transform=preprocess, tokenize=tokenizer)
    >>> loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=batches.collate, num_workers=2)
    >>> negcap.train_openclip(model, loader, torch.optim.AdamW(model.parameters(), 1e-5), epochs=5)

In several processes (torch.distributed) the images and texts of all are gathered. The gradients are then those of one
process with the whole batch, if `DistributedDataParallel` averages them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from .batches import CaptionBatch, Negatives, this_process

__all__ = ["NegativesLoss", "train_openclip", "train_transformers"]


Library: TypeAlias = Any  # an object of OpenCLIP or transformers, which are not imported here


class _Gather(torch.autograd.Function):
    """The rows (B, …) of all N processes, (N B, …)."""

    @staticmethod
    def forward(context: object, rows: Tensor) -> Tensor:
        """Gather the rows of all processes, in the order of their ranks."""
        parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        """The gradient of this process' rows (B, …), from that of all rows (N B, …)."""
        # The loss of every process depends on the rows of all: their gradients are added, and each process takes the
        # part of its own rows.
        gradient = gradient.contiguous()
        distributed.all_reduce(gradient)
        return gradient.chunk(distributed.get_world_size())[distributed.get_rank()]


def _gather_rows(rows: Tensor) -> Tensor:
    """The rows (B, …) of all N processes, (N B, …), through which gradients flow back to each."""
    gathered: Tensor = _Gather.apply(rows) if this_process().processes > 1 else rows
    return gathered


class NegativesLoss(nn.Module):
    """CLIP's loss, in which the negatives of all captions are further columns for the images, as in NegCLIP
    (Yuksekgonul et al. 2023). All processes must have equally many images, and equally many negatives of each.

    Attributes:
        mask: (B, k) bool, which of a batch's negatives there are, for trainers that call the loss without this
            argument; it holds until it is set anew. The arguments of a call are those of `forward`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mask: Tensor | None = None

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        mask: Tensor | None = None,
        output_dict: bool = False,
        **others: object,
    ) -> Tensor | dict[str, Tensor]:
        """The mean of the losses of images and of captions of this process.

        Args:
            image_features: (B, d), unit vectors.
            text_features: (B (1 + k), d), unit vectors of the captions, then of the negatives of each in turn.
            logit_scale: what cosines are multiplied by.
            mask: (B, k) bool, which negatives there are; None: the attribute `mask`.
            output_dict: whether to return {"contrastive_loss": loss}, as OpenCLIP asks for.
            **others: of OpenCLIP, not used.

        Raises:
            ValueError: there is no mask, or it is not of this batch.
        """
        mask = self.mask if mask is None else mask
        size = len(image_features)
        if mask is None or size * (1 + mask.shape[1]) != len(text_features) or len(mask) != size:
            shape = None if mask is None else tuple(mask.shape)
            rule = f"mask must be of {size} captions and their negatives, {len(text_features)} texts in all"
            raise ValueError(f"{rule}, its shape was: {shape}")
        # Among the captions of all processes, those of this one are the columns from rank * B; caption i is of image i.
        own = torch.arange(size, device=image_features.device) + this_process().rank * size
        captions = text_features[:size]
        negatives = text_features[size:]
        # The images of this process are compared with the texts of all processes, its captions with the images of all.
        to_captions = logit_scale * image_features @ _gather_rows(captions).T  # (B, N B)
        to_negatives = logit_scale * image_features @ _gather_rows(negatives).T  # (B, N B k)
        # exp(-inf) = 0: a negative that is not there adds nothing to the softmax.
        to_negatives = to_negatives.masked_fill(~_gather_rows(mask.to(own.device)).flatten(), -math.inf)
        to_images = logit_scale * captions @ _gather_rows(image_features).T  # (B, N B)
        loss_of_images = functional.cross_entropy(torch.cat([to_captions, to_negatives], 1), own)
        loss_of_captions = functional.cross_entropy(to_images, own)
        loss = (loss_of_images + loss_of_captions) / 2
        return {"contrastive_loss": loss} if output_dict else loss


def _all_texts(batch: Mapping[str, Tensor]) -> Tensor:
    """The tokens (B (1 + k), …) of the captions of a batch, then of the negatives of each in turn."""
    return torch.cat([batch["caption"], batch["negatives"].flatten(0, 1)])


class _Epochs:
    """The first `steps` batches of a loader in each epoch; None: as many as it has."""

    def __init__(self, batches: Iterable[CaptionBatch], steps: int | None) -> None:
        if steps is None and not hasattr(batches, "__len__"):
            raise ValueError("steps must be the batches of an epoch, as the loader does not say how many it has")
        self.batches = batches
        self.steps: int = len(batches) if steps is None else steps  # type: ignore[arg-type]
        if self.steps < 1:
            raise ValueError(f"an epoch must have a batch, has {self.steps}: the batch size may exceed the captions")

    def set_epoch(self, epoch: int) -> None:
        """Let `Negatives` choose other negatives in each epoch; loaders of another kind must see to that themselves."""
        source = self.batches.dataset if isinstance(self.batches, DataLoader) else self.batches
        if isinstance(source, Negatives):
            source.set_epoch(epoch)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[CaptionBatch]:
        """The batches of an epoch, each checked to have tensors."""
        for batch in islice(self.batches, self.steps):
            _require_tensors(batch)
            yield batch


def _require_tensors(batch: CaptionBatch) -> dict[str, Tensor]:
    """The tensors of a batch that a CLIP is trained on. Raises ValueError if it has texts or paths in their place."""
    tensors: dict[str, Tensor] = {}
    for name in ("image", "caption", "negatives", "mask"):
        value = batch.get(name)
        if not isinstance(value, Tensor):
            rule = "batches must have tensors image, caption, negatives and mask"
            raise ValueError(f"{rule}: give Negatives images, transform and tokenize")
        tensors[name] = value
    return tensors


class _OpenClipLoader:
    """Batches as OpenCLIP's trainer takes them: (B images, B (1 + k) texts). The loss gets the mask of each, and the
    trainer's arguments the batch size, which it reports speed by.
    """

    def __init__(self, epochs: _Epochs, loss: NegativesLoss, arguments: SimpleNamespace) -> None:
        """Give the batches of `epochs`; loss, arguments: of the trainer, which are told of each batch."""
        self.epochs = epochs
        self.loss = loss
        self.arguments = arguments
        self.num_batches = self.num_samples = len(epochs)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self.epochs:
            tensors = _require_tensors(batch)
            images = tensors["image"]
            # The trainer takes pairs and calls the loss without the mask, so the loss is told it before each step.
            self.loss.mask = tensors["mask"]
            self.arguments.batch_size = len(images)
            self.num_samples = self.num_batches * len(images) * self.arguments.world_size
            yield images, _all_texts(tensors)


def train_openclip(
    model: nn.Module,
    batches: Iterable[CaptionBatch],
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int = 1,
    steps: int | None = None,
    scheduler: Callable[[int], object] | None = None,
    scaler: torch.amp.GradScaler | None = None,
    precision: str = "fp32",
    **arguments: Library,
) -> None:
    """Train a model of OpenCLIP on batches with negatives, by OpenCLIP's own `train_one_epoch`.

    The loss is `NegativesLoss`.

    Args:
        model: of `open_clip.create_model(…, output_dict=True)`, on its device; in several processes in a
            `DistributedDataParallel`.
        batches: each of B images and captions with up to k negatives, as tensors: a DataLoader of `Negatives` with a
            transform and a tokenizer, or anything that gives such dicts.
        optimizer: of the model's parameters.
        epochs: passes over the batches.
        steps: batches of this process in an epoch; None: as many as the loader has.
        scheduler: called before each step with its number, such as `open_clip_train.scheduler.cosine_lr`.
        scaler: a GradScaler, for precision amp.
        precision: as OpenCLIP has it: fp32, amp, amp_bf16, pure_bf16 …
        **arguments: further ones of OpenCLIP's trainer, such as grad_clip_norm or log_every_n_steps.

    Raises:
        ImportError: OpenCLIP is not installed.
        ValueError: the model gives no dict, batches hold no tensors, or an epoch has no batch.
    """
    from open_clip_train.train import train_one_epoch

    inner = model.module if hasattr(model, "module") else model  # of a DistributedDataParallel
    if not getattr(inner, "output_dict", False):
        raise ValueError("model must give a dict: open_clip.create_model(…, output_dict=True)")
    process = this_process()
    device = str(next(model.parameters()).device)
    # What the trainer reads of its arguments: values that the loss needs, and defaults that the caller may replace.
    fixed = {"distill": False, "accum_freq": 1, "horovod": False, "wandb": False, "tensorboard": False}
    usual = {"grad_clip_norm": None, "log_every_n_steps": 100, "local_rank": process.rank, "log_local": False}
    if wrong := sorted(arguments.keys() & fixed.keys()):
        raise ValueError(f"{wrong[0]} cannot be changed: the loss with negatives needs {fixed[wrong[0]]}")
    settings = SimpleNamespace(
        **{**fixed, **usual, **arguments},
        **{"device": device, "precision": precision, "skip_scheduler": scheduler is None, "batch_size": 0},
        **{"rank": process.rank, "world_size": process.processes},
    )
    batches_of_epochs = _Epochs(batches, steps)
    loss = NegativesLoss()
    loader = _OpenClipLoader(batches_of_epochs, loss, settings)
    data = {"train": SimpleNamespace(dataloader=loader, set_epoch=batches_of_epochs.set_epoch)}
    for epoch in range(epochs):
        train_one_epoch(model, data, loss, epoch, optimizer, scaler, scheduler, None, settings)


def train_transformers(
    model: Library,
    batches: Iterable[CaptionBatch],
    arguments: Library,
    *,
    steps: int | None = None,
    padding: int | None = None,
) -> Library:
    """Train a CLIPModel of transformers on batches with negatives, by transformers' own `Trainer`, which is returned.

    The loss is `NegativesLoss`.

    Args:
        model: a `transformers.CLIPModel`.
        batches: each of B images and captions with up to k negatives, as tensors, such as a DataLoader of `Negatives`
            gives; `caption` and `negatives` are `input_ids`, padded to one length. Each process reads batches of its
            own: the trainer does not divide them among processes.
        arguments: the `transformers.TrainingArguments`: epochs, learning rate, where to save.
        steps: batches of this process in an epoch; None: as many as the loader has.
        padding: the id of the padding token; None: that of the model's config.

    Raises:
        ImportError: transformers, or accelerate, is not installed.
        ValueError: batches hold no tensors, an epoch has no batch, or there is no padding token.
    """
    import transformers

    batches_of_epochs = _Epochs(batches, steps)
    loss = NegativesLoss()
    pad = model.config.text_config.pad_token_id if padding is None else padding
    if pad is None:
        raise ValueError("padding must be the id of the padding token, as the model's config has none")

    class Trainer(transformers.Trainer):
        """Takes batches as they come, and scores their captions with their negatives."""

        def get_train_dataloader(self) -> Library:
            """The batches as they are: transformers would share them out among processes."""
            return batches_of_epochs

        def compute_loss(
            self,
            model: Library,
            inputs: Mapping[str, Tensor],
            return_outputs: bool = False,
            num_items_in_batch: object = None,
        ) -> Library:
            """The loss of a batch, of which transformers itself knows no negatives."""
            texts = _all_texts(inputs)
            given = {"pixel_values": inputs["image"], "input_ids": texts, "attention_mask": (texts != pad).long()}
            outputs = model(**given)
            scale = self.accelerator.unwrap_model(model).logit_scale.exp()
            mean = loss(outputs.image_embeds, outputs.text_embeds, scale, inputs["mask"])
            return (mean, outputs) if return_outputs else mean

    trainer = Trainer(model, arguments)
    trainer.train()
    return trainer
