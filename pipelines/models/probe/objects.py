"""The objects that the captions of images name: heads of noun phrases (VSE-C, section 4.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
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
from .task import FILE, NOUNS, Task, TaskResult, word_tables

AT_ONCE = 512  # images ranked at a time


class ClassifierTraining(NamedTuple):
    """How a classifier is trained; dropout is that of VSE-C."""

    epochs: int = 15
    batch_size: int = 128
    learning_rate: float = 0.01
    dropout: float = 0.5


TRAINING = ClassifierTraining()


class Objects(NamedTuple):
    """O frequent objects, and which of them I images show, by their captions. words: the objects. present, absent: (I,
    O) bool; both are False for a direct hypernym or hyponym of an object that is present, which the image may show.
    """

    words: list[str]
    present: Tensor
    absent: Tensor

    def select(self, images: Tensor, kept: Tensor) -> Objects:
        """The objects of some images (n,); kept: (O,) bool, the objects that stay."""
        words = list(compress(self.words, kept.tolist()))
        return Objects(words, self.present[images][:, kept], self.absent[images][:, kept])


def frequent_objects(run: Path, image_ids: Sequence[str], min_count: int | None = None) -> Objects:
    """The objects that head at least `min_count` noun phrases of a run's captions, and the images that have them.

    An image has the objects of all its captions. min_count: None: what corresponds, for a run of this size, to more
    than 200 in all of COCO. Raises FileNotFoundError for a run without parses, ValueError if no object is frequent.
    """
    images = []
    lemmas = []
    captions = 0
    for table in read_table(run, "parses"):
        heads = noun_heads(table)
        images.append(table["image_id"].to_numpy(zero_copy_only=False)[heads.row])
        lemmas.append(heads.lemma)
        captions += len(table)
    least = default_min_count(captions) if min_count is None else min_count
    named = pd.DataFrame({"image": np.concatenate(images), "object": np.concatenate(lemmas)})
    counts = named["object"].value_counts()
    words = sorted(counts.index[counts >= least])
    if not words:
        raise ValueError(f"objects must occur {least} times in {run}, none does")
    # -1 for an image that is not asked for, and for an object that is not frequent
    row = pd.Index(image_ids).get_indexer(pd.Index(named["image"]))
    column = pd.Index(words).get_indexer(pd.Index(named["object"]))
    known = (row >= 0) & (column >= 0)
    present = torch.zeros(len(image_ids), len(words), dtype=torch.bool)
    present[torch.from_numpy(row[known]), torch.from_numpy(column[known])] = True
    # A picture of a puppy shows a dog, too, though no caption may say so.
    is_relative_of_present = present.float() @ direct_relatives(words).float() > 0
    return Objects(words, present, absent=~present & ~is_relative_of_present)


class NounHeads(NamedTuple):
    """n common nouns that head noun phrases: row (n,) of each in a table of parses, and their lemmas (n,)."""

    row: np.ndarray
    lemma: np.ndarray


def noun_heads(parses: pa.Table) -> NounHeads:
    """The common nouns that head the noun phrases of captions, with the caption of each; only words of letters.

    parses: with `tokens` and `chunks`, lists with a row for each caption. A chunk's `root` is the number of its head
    among the caption's tokens.
    """
    tokens = parses["tokens"].combine_chunks()  # lists, a row a caption
    chunks = parses["chunks"].combine_chunks()
    row = np.repeat(np.arange(len(parses)), chunks.value_lengths().to_numpy())  # the caption of each noun phrase
    first_token = tokens.offsets.to_numpy()[:-1] - tokens.offsets[0].as_py()  # of each caption in the flat tokens
    root = first_token[row] + chunks.flatten().field("root").to_numpy()
    flat_tokens = tokens.flatten()
    tags = flat_tokens.field("tag").to_numpy(zero_copy_only=False)[root]
    lemmas = flat_tokens.field("lemma").to_numpy(zero_copy_only=False)[root]
    is_word = np.array([lemma.isalpha() for lemma in lemmas], bool)
    is_head = is_word & np.isin(tags.astype(str), NOUNS)
    return NounHeads(row[is_head], lemmas[is_head].astype(str))


def direct_relatives(words: Sequence[str]) -> Tensor:
    """(W, W) bool: True for words of which a sense of one is a direct hypernym of a sense of the other in WordNet."""
    wordnet = WordNet.load()
    words_of_sense: dict[int, list[int]] = defaultdict(list)  # by sense, the numbers of the words that have it
    for number, word in enumerate(words):
        for sense in set(wordnet.senses(word, "n")):
            words_of_sense[sense].append(number)
    is_below = torch.zeros(len(words), len(words), dtype=torch.bool)
    for sense, numbers in words_of_sense.items():
        for hypernym in wordnet.relation("hypernyms", sense):
            above = words_of_sense.get(hypernym, [])
            for number in numbers:
                is_below[number, above] = True
    return is_below | is_below.T


class Classifier(nn.Module):
    """logit_k = wᵀ A_k x + b_k for k = shown or not: a linear layer on the outer product of w (e,) and x (D,)."""

    def __init__(self, words: int, features: int, generator: Generator) -> None:
        """Make the weights for word vectors of `words` numbers, e, and images of `features` numbers, D."""
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
    words: Tensor,
    features: Tensor,
    objects: Objects,
    seed: int = 0,
    training: ClassifierTraining = TRAINING,
) -> Classifier:
    """A classifier trained on images and vectors of their objects, neither of which change.

    As in VSE-C's released code, an image has in each epoch one random object that it shows and one that it does not;
    images that show no object, or all of them, are left out. SGD's learning rate falls to a tenth after each third of
    the epochs. There dropout sets a share of the outer product of word and image to 0; here it is applied to word and
    image separately, so that the same share of the products is 0.

    Args:
        words: (O, e) vectors, on the device that computes.
        features: (I, D) of the images, there or on the CPU.
        objects: which images have which of the O objects.
        seed: of the initial weights, and of what is drawn.
        training: how long it is trained, and how fast.
    """
    generator = Generator().manual_seed(seed)
    device = words.device
    classifier = Classifier(words.shape[1], features.shape[1], generator).to(device)
    usable = (objects.present.any(1) & objects.absent.any(1)).nonzero()[:, 0]
    # A product of word and image is kept if both of its factors are, with a chance of keep².
    keep = (1 - training.dropout) ** 0.5

    def batches(epoch: int) -> Sequence[Tensor]:
        """The usable images in random order, in parts."""
        return usable[torch.randperm(len(usable), generator=generator)].split(training.batch_size)

    def random_object(flags: Tensor) -> Tensor:
        """The number (n,) of one of those that are True in each row (n, O)."""
        return (torch.rand(flags.shape, generator=generator) * flags).argmax(1)

    def step(rows: Tensor, epoch: int) -> TrainingStep:
        """The loss of telling, for n images, a random object that each shows from one that it does not."""
        shown = random_object(objects.present[rows])
        other = random_object(objects.absent[rows])
        # The images with the objects that they show, then the same ones with those that they do not
        word = words[to_device(torch.cat([shown, other]), device)]
        image = rows_to_device(features, rows, device).repeat(2, 1)
        word_mask = torch.rand(word.shape, generator=generator) < keep
        image_mask = torch.rand(image.shape, generator=generator) < keep
        word = word * to_device(word_mask, device) / keep
        image = image * to_device(image_mask, device) / keep
        labels = torch.cat([torch.ones_like(shown), torch.zeros_like(other)])
        return TrainingStep(functional.cross_entropy(classifier(word, image), to_device(labels, device)))

    def rate(epoch: int, steps: int) -> float:
        """The learning rate: a tenth of the rate before after each third of the epochs."""
        return training.learning_rate * 0.1 ** ((epoch - 1) // max(1, training.epochs // 3))

    optimizer = torch.optim.SGD(classifier.parameters(), lr=training.learning_rate)
    fit({"classifier": classifier}, {"optimizer": optimizer}, batches, step, training.epochs, rate=rate)
    return classifier


class MeanAveragePrecision(NamedTuple):
    """The mean average precision in %, and how many images it is a mean over."""

    figure: Figure
    images: int


def mean_average_precision(
    scores: Callable[[Tensor], Tensor],
    features: Tensor,
    objects: Objects,
    seed: int,
    device: torch.device = CPU,
) -> MeanAveragePrecision:
    """How well objects are ranked by image; objects that are neither shown nor absent are left out, and so are images
    without either kind. Ties count against. The interval is by the bootstrap over images.

    Args:
        scores: maps features (n, D), on the device, to scores (n, O).
        features: (I, D) of all images.
        objects: of these images.
        seed: of the bootstrap.
        device: that computes the scores.
    """
    usable = (objects.present.any(1) & objects.absent.any(1)).nonzero()[:, 0]
    precisions = []
    with torch.inference_mode():
        for rows in usable.split(AT_ONCE):
            present = objects.present[rows]
            counts = present | objects.absent[rows]
            ranked = scores(rows_to_device(features, rows, device)).cpu().masked_fill(~counts, -torch.inf)
            precisions.append(average_precision(ranked, present))
    per_image = torch.cat(precisions).numpy()[:, None]
    (figure,) = ratios_with_intervals(per_image, np.ones_like(per_image), seed)
    return MeanAveragePrecision(figure, len(per_image))


def image_to_word(task: Task) -> TaskResult:
    """VSE-C's Table 6: how well each table of vectors tells which objects an image shows."""
    config = task.config
    captions = task.captions
    features = task.features
    objects = frequent_objects(task.run, captions.image_ids, config.min_count)
    tables = word_tables(config.vectors, config.models, objects.words, config.seed)
    has_vector = ~tables[FILE].isnan().any(1)
    train = captions.image[task.train].unique()
    test = captions.image[task.test].unique()
    train_objects = objects.select(train, has_vector)
    test_objects = objects.select(test, has_vector)
    training = ClassifierTraining(epochs=config.epochs or TRAINING.epochs)

    def measured(scores: Callable[[Tensor], Tensor]) -> MeanAveragePrecision:
        """How well scores (n, O) of the objects rank those of the test images, of which the features are given."""
        return mean_average_precision(scores, features[test], test_objects, config.seed, task.device)

    # A baseline that sees no image: the same scores for all
    frequency = train_objects.present.sum(0).double()
    results = {"most frequent objects": measured(lambda images: frequency.expand(len(images), -1))}
    for name, table in tables.items():
        vectors = table[has_vector].to(task.device)
        task.say(f"{name}: {vectors.shape[1]} numbers a word")
        classifier = train_classifier(vectors, features[train], train_objects, config.seed, training)
        results[name] = measured(partial(classifier.scores, vectors))

    test_images = results[FILE].images
    metrics: dict[str, object] = {
        "objects": len(train_objects.words),
        "without vector": int((~has_vector).sum()),
        "train images": len(train),
        "test images": test_images,
        "epochs": training.epochs,
        "rows": {
            name: {"MAP": result.figure.value, "interval": list(result.figure.interval)}
            for name, result in results.items()
        },
    }
    about = (
        f"{len(train_objects.words)} objects, {len(train):,} images to train on in {training.epochs} epochs, "
        f"{test_images:,} to test; 95 % bootstrap intervals over images."
    )
    cells = [[name, str(result.figure)] for name, result in results.items()]
    return TaskResult(metrics, f"{about}\n\n{markdown_table(['image to word', 'MAP'], cells)}")
