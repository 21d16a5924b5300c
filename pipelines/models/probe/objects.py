"""The objects that the captions of images name: heads of noun phrases (VSE-C, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ....augment.language.wordnet import WordNet
from ....augment.lexicon.lexicon import default_min_count
from ...engine.tables import read_table
from ..data import CPU
from ..device import rows_to_device, to_device
from ..evaluation.components import average_precision
from ..figures import Figure, markdown_table, ratios_with_intervals
from ..fit import TrainingStep, fit
from .task import FILE, NOUNS, Task, word_tables

EPOCHS = 15
BATCH_SIZE = 128
LEARNING_RATE = 0.01
DROPOUT = 0.5  # of VSE-C


class Objects(NamedTuple):
    """O frequent objects, and which of them I images have. words: the objects. present, absent: (I, O) bool; an object
    that is neither is a direct hypernym or hyponym of one that is present.
    """

    words: list[str]
    present: Tensor
    absent: Tensor


def frequent_objects(run: Path, image_ids: Sequence[str], min_count: int | None = None) -> Objects:
    """The objects that head at least `min_count` noun phrases of a run's captions, and the images that have them.
    min_count: None: more than 200 in all of COCO, scaled to the run. An image has the objects of all its captions.
    Raises FileNotFoundError for a run without parses, ValueError if no object is frequent.
    """
    images = []
    heads = []
    captions = 0
    for table in read_table(run, "parses"):
        own = table["image_id"].to_numpy(zero_copy_only=False)
        at, found = noun_heads(table)
        images.append(own[at])
        heads.append(found)
        captions += len(table)
    least = default_min_count(captions) if min_count is None else min_count
    words, counts = np.unique(np.concatenate(heads), return_counts=True)
    kept = words[counts >= least]
    if not len(kept):
        raise ValueError(f"objects must occur {least} times in {run}, none does")
    number = {image: n for n, image in enumerate(image_ids)}
    row = np.array([number.get(image, -1) for image in np.concatenate(images)])
    column = np.searchsorted(kept, np.concatenate(heads)).clip(max=len(kept) - 1)
    known = (row >= 0) & (kept[column] == np.concatenate(heads))
    present = torch.zeros(len(image_ids), len(kept), dtype=torch.bool)
    present[torch.from_numpy(row[known]), torch.from_numpy(column[known])] = True
    near = direct_relatives(kept.tolist())
    absent = ~present & ~(present.float() @ near.float() > 0)
    return Objects(kept.tolist(), present, absent)


def noun_heads(parses: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The common nouns that head noun phrases: (n,) the row of each in a table of parses, and (n,) their lemmas."""
    tokens, chunks = (parses[name].combine_chunks() for name in ("tokens", "chunks"))
    sizes = chunks.value_lengths().to_numpy()
    row = np.repeat(np.arange(len(parses)), sizes)
    starts = tokens.offsets.to_numpy()[:-1] - tokens.offsets[0].as_py()
    at = starts[row] + chunks.flatten().field("root").to_numpy()
    flat = tokens.flatten()
    tags, lemmas = (flat.field(name).to_numpy(zero_copy_only=False)[at] for name in ("tag", "lemma"))
    single = np.array([lemma.isalpha() for lemma in lemmas], bool) & np.isin(tags.astype(str), NOUNS)
    return row[single], lemmas[single].astype(str)


def direct_relatives(words: Sequence[str]) -> Tensor:
    """(W, W) bool: True for words of which a sense of one is a direct hypernym of a sense of the other in WordNet."""
    wordnet = WordNet.load()
    senses = [set(wordnet.senses(word, "n")) for word in words]
    above = [{up for sense in own for up in wordnet.relation("hypernyms", sense)} for own in senses]
    of: dict[int, list[int]] = {}
    for number, own in enumerate(senses):
        for sense in own:
            of.setdefault(sense, []).append(number)
    near = torch.zeros(len(words), len(words), dtype=torch.bool)
    for number, ups in enumerate(above):
        for up in ups:
            near[number, of.get(up, [])] = True
    return near | near.T


class Classifier(nn.Module):
    """logit_k = wᵀ A_k x + b_k for k = shown or not: a linear layer on the outer product of w (e,) and x (D,)."""

    def __init__(self, words: int, features: int, generator: Generator) -> None:
        super().__init__()
        bound = (words * features) ** -0.5
        self.weight = nn.Parameter(torch.empty(2, words, features).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, words: Tensor, features: Tensor) -> Tensor:
        """The logits (n, 2) of pairs of a word (n, e) and an image (n, D)."""
        return torch.stack([((words @ weight) * features).sum(1) for weight in self.weight], 1) + self.bias

    def scores(self, words: Tensor, features: Tensor) -> Tensor:
        """The logits (I, W) of being shown, of all pairs of images (I, D) and words (W, e)."""
        return features @ (words @ self.weight[1]).T + self.bias[1]


def train_classifier(
    words: Tensor, features: Tensor, objects: Objects, seed: int = 0, epochs: int = EPOCHS
) -> Classifier:
    """A classifier trained on images (I, D) and the vectors (O, e) of their objects, neither of which change. It is on
    the device of the vectors; the images are there or on the CPU.

    As in VSE-C's released code, an image has in each epoch one random object that it shows and one that it does not;
    images that show no object, or all of them, are left out. The learning rate of SGD is a tenth after each third of
    the epochs, and a share DROPOUT of the outer product of word and image is set to 0; here both are dropped apart, so
    that this share of their products is. seed: of the initial weights, and of what is drawn.
    """
    generator = Generator().manual_seed(seed)
    device = words.device
    classifier = Classifier(words.shape[1], features.shape[1], generator).to(device)
    usable = (objects.present.any(1) & objects.absent.any(1)).nonzero()[:, 0]
    keep = (1 - DROPOUT) ** 0.5

    def batches(epoch: int) -> Sequence[Tensor]:
        return usable[torch.randperm(len(usable), generator=generator)].split(BATCH_SIZE)

    def one_each(flags: Tensor) -> Tensor:
        return (torch.rand(flags.shape, generator=generator) * flags).argmax(1)

    def step(rows: Tensor, epoch: int) -> TrainingStep:
        shown = one_each(objects.present[rows])
        other = one_each(objects.absent[rows])
        w = words[to_device(torch.cat([shown, other]), device)]
        x = rows_to_device(features, rows, device).repeat(2, 1)
        kept = (torch.rand(part.shape, generator=generator) < keep for part in (w, x))
        w, x = (part * to_device(mask, device) / keep for part, mask in zip((w, x), kept, strict=True))
        labels = torch.cat([torch.ones_like(shown), torch.zeros_like(other)])
        return TrainingStep(functional.cross_entropy(classifier(w, x), to_device(labels, device)))

    def rate(epoch: int, steps: int) -> float:
        return LEARNING_RATE * 0.1 ** ((epoch - 1) // max(1, epochs // 3))

    optimizer = torch.optim.SGD(classifier.parameters(), lr=LEARNING_RATE)
    fit({"classifier": classifier}, {"optimizer": optimizer}, batches, step, epochs, rate=rate)
    return classifier


def mean_average_precision(
    scores: Callable[[Tensor], Tensor],
    features: Tensor,
    objects: Objects,
    seed: int,
    device: torch.device = CPU,
) -> tuple[Figure, int]:
    """How well objects are ranked by image (I, D); objects that are neither shown nor absent are left out. scores: maps
    features (n, D) on a device to scores (n, O). The interval is by the bootstrap over images. Images without either
    kind of objects are left out; ties count against. Returns the mean in %, and how many images.
    """
    usable = (objects.present.any(1) & objects.absent.any(1)).nonzero()[:, 0]
    with torch.inference_mode():
        found = []
        for rows in usable.split(512):
            present = objects.present[rows]
            ranked = scores(rows_to_device(features, rows, device)).cpu()
            ranked = ranked.masked_fill(~(present | objects.absent[rows]), -torch.inf)
            found.append(average_precision(ranked, present))
    per_image = torch.cat(found).numpy()[:, None]
    (mean,) = ratios_with_intervals(per_image, np.ones_like(per_image), seed)
    return mean, len(per_image)


def image_to_word(task: Task) -> tuple[dict[str, Any], str]:
    """VSE-C's Table 6, as metrics and Markdown: how well each table of vectors tells which objects an image shows."""
    config = task.config
    captions = task.captions
    features = task.features
    objects = frequent_objects(task.run, captions.image_ids, config.min_count)
    tables = word_tables(config.vectors, config.models, objects.words, config.seed)
    known = ~tables[FILE].isnan().any(1)
    train, test = (captions.image[rows].unique() for rows in (task.train, task.test))
    words = list(compress(objects.words, known.tolist()))
    seen, tested = (Objects(words, objects.present[at][:, known], objects.absent[at][:, known]) for at in (train, test))
    epochs = config.epochs or EPOCHS
    frequent = seen.present.sum(0).double()
    scores: dict[str, Callable[[Tensor], Tensor]] = {"most frequent objects": lambda x: frequent.expand(len(x), -1)}
    for name, table in tables.items():
        vectors = table[known].to(task.device)
        task.say(f"{name}: {vectors.shape[1]} numbers a word")
        scores[name] = partial(train_classifier(vectors, features[train], seen, config.seed, epochs).scores, vectors)
    found = {
        name: mean_average_precision(score, features[test], tested, config.seed, task.device)
        for name, score in scores.items()
    }
    rows = {name: {"MAP": mean.value, "interval": list(mean.interval)} for name, (mean, _) in found.items()}
    metrics: dict[str, Any] = {"objects": len(words), "without vector": int((~known).sum()), "train images": len(train)}
    metrics |= {"test images": found[FILE][1], "epochs": epochs, "rows": rows}
    about = f"{len(words)} objects, {len(train):,} images to train on in {epochs} epochs, {found[FILE][1]:,} to test"
    cells = [[name, str(mean)] for name, (mean, _) in found.items()]
    about += "; 95 % bootstrap intervals over images."
    return metrics, f"{about}\n\n{markdown_table(['image to word', 'MAP'], cells)}"
