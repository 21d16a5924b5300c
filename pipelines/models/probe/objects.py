"""The objects that the captions of images name: heads of noun phrases (VSE-C, section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ....augment.language.wordnet import WordNet
from ....augment.lexicon.lexicon import default_min_count
from ...engine.tables import read_table

NOUNS = ("NN", "NNS")


class Objects(NamedTuple):
    """O frequent objects, and which of them I images have.

    words: the objects. present, absent: (I, O) bool; an object that is neither is a direct hypernym or hyponym of one
    that is present.
    """

    words: list[str]
    present: Tensor
    absent: Tensor


def frequent_objects(run: Path, image_ids: Sequence[str], min_count: int | None = None) -> Objects:
    """The objects that head at least `min_count` noun phrases of a run's captions, and the images that have them.

    min_count: None: more than 200 in all of COCO, scaled to the run. An image has the objects of all its captions.
    Raises FileNotFoundError for a run without parses, ValueError if no object is frequent.
    """
    images, heads, captions = [], [], 0
    for table in _parses(run):
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


def _parses(run: Path) -> Iterator[pa.Table]:
    yield from read_table(run, "parses")
