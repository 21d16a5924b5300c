"""Negative captions for OpenCLIP's trainer: a loader and a loss, in NegCLIP's manner."""

from types import SimpleNamespace

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from negcap.torch import Negatives


class Loader:
    """Batches (images, texts) of B images and B (1 + k) texts: the captions, then the negatives of each in turn."""

    def __init__(self, negatives: Negatives, workers: int = 0):
        self.negatives, self.loader = negatives, DataLoader(negatives, batch_size=None, num_workers=workers)
        self.num_batches, self.num_samples = len(negatives), len(negatives) * negatives.batch_size

    def __iter__(self):
        for batch in self.loader:
            yield batch["image"], torch.cat([batch["caption"], batch["negatives"].flatten(0, 1)])


class NegativesLoss(torch.nn.Module):
    """InfoNCE in which the negatives of the batch are further columns for the images (Yuksekgonul et al. 2023)."""

    def forward(self, image_features, text_features, logit_scale, output_dict=False, **others):
        """The mean of both directions, from unit vectors (B, d) of images and (B (1 + k), d) of texts."""
        size = len(image_features)
        own = torch.arange(size, device=image_features.device)
        for_images = logit_scale * image_features @ text_features.T  # (B, B (1 + k))
        loss = (cross_entropy(for_images, own) + cross_entropy(for_images[:, :size].T, own)) / 2
        return {"contrastive_loss": loss} if output_dict else loss


def data(negatives: Negatives, workers: int = 0) -> dict:
    """What `open_clip_train.train.train_one_epoch` takes as `data`; its `loss` is NegativesLoss()."""
    return {"train": SimpleNamespace(dataloader=Loader(negatives, workers), set_epoch=negatives.set_epoch)}
