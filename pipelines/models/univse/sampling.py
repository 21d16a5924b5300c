"""The components of a batch, and false ones made by replacing a word, with the counts of UniVSE's supplement (A.1).

The 16 nouns sampled for a caption serve all of its components, the first four as ends of its triples. So that a batch
has fewer distinct words and triples to encode, its captions draw from the same 64 nouns, and its pairs and triples
share one random order of false attributes and relations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from ....augment.components.sampling import Sampler
from ..components import KINDS, component_ids, read_caption_rows, read_whole_table
from ..config import TrainConfig
from ..objective import RunTables
from ..texts import SceneGraphs
from .model import require_graphs

FALSE_NOUNS, FALSE_ATTRIBUTES = 16, 8  # per object: nouns; per pair: attributes and nouns
OF_A_BATCH = 64  # words of a kind from which those of a batch's captions are drawn
FALSE_RELATIONS, FALSE_ENDS = 4, 2  # per triple: relations; subjects, and as many objects
REPLACED_WORD = (
    (0,) * FALSE_ENDS + (1,) * FALSE_RELATIONS + (2,) * FALSE_ENDS
)  # the index in the triple that each false word replaces


class ComponentSource(NamedTuple):
    """The captions' scene graphs, a sampler of false components, and the word ids of what it samples, by kind."""

    graphs: SceneGraphs
    sampler: Sampler
    word_ids: dict[str, np.ndarray]


class FalseWords(NamedTuple):
    """N sampled words for each of m components; ids: (m, N); present: (m, N) bool, False where there is no word."""

    ids: np.ndarray
    present: np.ndarray


class SampledComponents(NamedTuple):
    """m components of a batch, with up to N words for each; a word put into the component makes it false.

    rows: (m,) indices in the lists of the scene graphs. owner: (m,) the index in the batch of the caption of each.
    false: (m, N) word ids. present: (m, N) bool, False where there are fewer words. All on the CPU.
    """

    rows: Tensor
    owner: Tensor
    false: Tensor
    present: Tensor


class ComponentBatch(NamedTuple):
    """All objects, pairs (attributed objects) and triples of a batch's captions, with false ones.

    absent: (B, 16) nouns that are not in the captions' images. one_each: (b,) a random triple of each caption that has
    any, as an index into `triples`: those that are negatives of the other captions' triples. order: a random number for
    each object, pair and triple, in this order.
    """

    objects: SampledComponents
    absent: Tensor
    pairs: SampledComponents
    triples: SampledComponents
    one_each: Tensor
    order: Tensor


def component_source(config: TrainConfig, tables: RunTables) -> ComponentSource:
    """What components are sampled from. Raises FileNotFoundError or ValueError if tables are missing or incomplete."""
    components = read_caption_rows(config.run, "components", tables.captions.ids)
    exclusions = read_whole_table(config.run, "component_exclusions")
    sampler = Sampler(components, read_whole_table(config.run, "component_vocabulary"), exclusions, config.false_words)
    word_ids = {kind: np.array(component_ids(tables.vocabulary, sampler.words[kind]), np.int64) for kind in KINDS}
    return ComponentSource(require_graphs(tables.texts), sampler, word_ids)


def sample_components(
    source: ComponentSource, captions: Tensor, config: TrainConfig, generator: Generator
) -> ComponentBatch:
    """The components of captions (B,), and sampled false ones, which no caption of the image may state."""
    rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    sampler, graphs, rows = source.sampler, source.graphs, captions.numpy()

    def words(kind: str, sampled: np.ndarray) -> FalseWords:
        ids = source.word_ids[kind]
        return FalseWords(ids[sampled] if len(ids) else np.zeros(sampled.shape, np.int64), sampled >= 0)

    absent = words("noun", sampler.nouns(rows, FALSE_NOUNS, rng, OF_A_BATCH))

    def absent_for(owner: Tensor) -> FalseWords:
        return FalseWords(absent.ids[owner.numpy()], absent.present[owner.numpy()])

    at, owner = graphs.objects.known_components(captions)
    objects = _sampled(at, owner, absent_for(owner))
    at, owner = graphs.pairs.known_components(captions)
    attributes = words("attribute", sampler.attributes(at.numpy(), FALSE_ATTRIBUTES, rng, OF_A_BATCH))
    pairs = _sampled(at, owner, attributes, absent_for(owner))
    at, owner = graphs.triples.known_components(captions)
    ends = absent_for(owner)
    false_subjects, false_objects = (
        FalseWords(ends.ids[:, part], ends.present[:, part])
        for part in (slice(FALSE_ENDS), slice(FALSE_ENDS, 2 * FALSE_ENDS))
    )
    false_relations = words("relation", sampler.relations(at.numpy(), FALSE_RELATIONS, rng, OF_A_BATCH))
    triples = _sampled(at, owner, false_subjects, false_relations, false_objects)
    one_each = _choose_one_each(owner, rng)
    order = torch.from_numpy(rng.random(len(objects.rows) + len(pairs.rows) + len(triples.rows)))
    return ComponentBatch(objects, torch.from_numpy(absent.ids), pairs, triples, one_each, order)


def _sampled(rows: Tensor, owner: Tensor, *parts: FalseWords) -> SampledComponents:
    """Components with the false words of all parts concatenated."""
    ids, present = (torch.from_numpy(np.concatenate(arrays, 1)) for arrays in zip(*parts, strict=True))
    return SampledComponents(rows, owner, ids, present)


def _choose_one_each(owner: Tensor, rng: np.random.Generator) -> Tensor:
    """One random component per caption, uniformly, as indices into owner (m,), the caption of each component."""
    order = torch.from_numpy(rng.permutation(len(owner)))
    order = order[owner[order].argsort(stable=True)]
    first = torch.ones(len(owner), dtype=torch.bool)
    first[1:] = owner[order][1:] != owner[order][:-1]
    return order[first]
