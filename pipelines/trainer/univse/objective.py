"""How UniVSE is trained: what it draws of the components, and the terms of its loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from augment.components.sampling import Sampler
from pipelines.trainer.components import KINDS, lookup, read_components, read_whole
from pipelines.trainer.config import TrainConfig
from pipelines.trainer.losses import max_of_hinges, sum_of_hinges
from pipelines.trainer.objective import Batch, Objective, Tables, mixed
from pipelines.trainer.sampling import to
from pipelines.trainer.texts import Graphs
from pipelines.trainer.univse.losses import averaged, batch_hinges, made_hinges, relevance_hinges
from pipelines.trainer.univse.model import UniVSE, components_of

NOUNS, ATTRIBUTES = 16, 8  # negatives of an object; a pair has 8 of its attribute, 16 of its noun
RELATIONS, ENDS = 4, 2  # of a triple: 4 of its relation, 2 of its subject, 2 of its object
PLACES = (0,) * ENDS + (1,) * RELATIONS + (2,) * ENDS  # which word of a triple each of its negatives replaces


class Source(NamedTuple):
    """Components of the captions, false ones of them, and the vocabulary's id of each that the sampler draws."""

    graphs: Graphs
    sampler: Sampler
    words: dict[str, np.ndarray]


class Some(NamedTuple):
    """Components drawn for a batch.

    at: (m,) their numbers; owner: (m,) the places in the batch of the captions they are of; false: (m, N) a word that
    makes each false, by the place it takes; there: (m, N) bool, whether there is such a word. All on the CPU.
    """

    at: Tensor
    owner: Tensor
    false: Tensor
    there: Tensor


class Drawn(NamedTuple):
    """Of a batch all objects and pairs, and a triple a caption.

    every: numbers and owners of all triples, for the composition; chosen: which of them are `triples`.
    """

    objects: Some
    pairs: Some
    triples: Some
    every: tuple[Tensor, Tensor]
    chosen: Tensor


def source(config: TrainConfig, tables: Tables) -> Source:
    """What negatives are drawn from. Raises ValueError and FileNotFoundError for tables that are missing."""
    components = read_components(config.run, tables.captions)
    exclusions = read_whole(config.run, "component_exclusions")
    sampler = Sampler(components, read_whole(config.run, "component_vocabulary"), exclusions)
    words = {kind: np.array(lookup(tables.vocabulary, sampler.words[kind]), np.int64) for kind in KINDS}
    return Source(components_of(tables.texts), sampler, words)


def draw(source: Source, captions: Tensor, config: TrainConfig, generator: Generator) -> Drawn:
    """The components of captions (B,) and negatives of them, as the paper's supplement draws them (A.1)."""
    rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    sampler, graphs, names = source.sampler, source.graphs, captions.numpy()

    def ids(kind: str, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return source.words[kind][drawn], drawn >= 0

    nouns, some = ids("noun", sampler.nouns(names, NOUNS, rng))
    at, owner = graphs.objects.of(captions)
    objects = _some(at, owner, [(nouns[owner.numpy()], some[owner.numpy()])])
    at, owner = graphs.pairs.of(captions)
    attributes = ids("attribute", sampler.attributes(at.numpy(), ATTRIBUTES, rng))
    pairs = _some(at, owner, [attributes, (nouns[owner.numpy()], some[owner.numpy()])])
    every = graphs.triples.of(captions)
    chosen = _one_each(every[1], rng)
    at, owner = every[0][chosen], every[1][chosen]
    of = names[owner.numpy()]
    ends = [ids("noun", sampler.nouns(of, ENDS, rng)) for _ in range(2)]
    relations = ids("relation", sampler.relations(at.numpy(), RELATIONS, rng))
    return Drawn(objects, pairs, _some(at, owner, [ends[0], relations, ends[1]]), every, chosen)


def _some(at: Tensor, owner: Tensor, parts: list[tuple[np.ndarray, np.ndarray]]) -> Some:
    false, there = (torch.from_numpy(np.concatenate(arrays, 1)) for arrays in zip(*parts, strict=True))
    return Some(at, owner, false, there)


def _one_each(owner: Tensor, rng: np.random.Generator) -> Tensor:
    """Of the components of each caption one, by chance: its place in owner (m,)."""
    order = torch.from_numpy(rng.permutation(len(owner)))
    order = order[owner[order].argsort(stable=True)]
    first = torch.ones(len(owner), dtype=torch.bool)
    first[1:] = owner[order][1:] != owner[order][:-1]
    return order[first]


def losses(model: UniVSE, batch: Batch, drawn: Drawn, config: TrainConfig, epoch: int) -> dict[str, Tensor]:
    """ℓ_sent + η_c ℓ_comp + η_o ℓ_obj + η_a ℓ_attr + η_r ℓ_rel, each summed over the batch's captions."""
    graphs, device, size = components_of(batch.texts), batch.features.device, len(batch.captions)
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges
    comp, obj, attr, rel = config.weights
    relating = "rel" in config.contrast and epoch > config.relations_after
    objects, pairs, triples = drawn.objects, drawn.pairs, drawn.triples
    at, of_every = drawn.every
    with mixed(config, device):
        images, regions = model.image.with_regions(batch.features)
        positive = graphs.triples.words[to(at, device)]
        negative = _replaced(graphs.triples.words, triples, device) if relating else positive[:0]
        sentences, vectors = model.sequences(batch.texts, batch.captions, torch.cat([positive, negative]))
        nouns = model.word(graphs.objects.words[to(objects.at, device), 0])
        said = graphs.pairs.words[to(pairs.at, device)]
        described = model.word(said[:, 1], said[:, 0])
    related = vectors[: len(positive)]
    terms = {"sent": pair_loss(images @ sentences.T, config.margin, batch.same)}
    if config.components and comp:
        kinds = {"obj": nouns, "attr": described, "rel": related}
        owners = {"obj": objects.owner, "attr": pairs.owner, "rel": of_every}
        composed, there = model.compose(kinds, owners, size)
        terms["comp"] = comp * pair_loss((images @ composed.T)[there][:, there], config.margin, batch.same[there][:, there])
    if "obj" in config.contrast and obj:
        false = model.word(to(objects.false, device).flatten()).view(*objects.false.shape, -1)
        terms["obj"] = obj * _local(nouns, false, objects, regions, size, config.margin)
    if "attr" in config.contrast and attr:
        words, modifiers = to(pairs.false, device), said[:, :1].expand(-1, NOUNS)
        nouns_of = said[:, 1:].expand(-1, ATTRIBUTES)
        false = model.word(
            torch.cat([nouns_of, words[:, ATTRIBUTES:]], 1).flatten(),
            torch.cat([words[:, :ATTRIBUTES], modifiers], 1).flatten(),
        ).view(*pairs.false.shape, -1)
        terms["attr"] = attr * _local(described, false, pairs, regions, size, config.margin)
    if "rel" in config.contrast:
        terms["rel"] = images.new_zeros(()) if not relating else rel * _relations(
            images, related, vectors[len(positive) :], drawn, batch.same, config.margin
        )
    return terms


def _replaced(words: Tensor, triples: Some, device: torch.device) -> Tensor:
    """The negatives of triples, (m · N, 3)."""
    false = words[to(triples.at, device)][:, None].repeat(1, len(PLACES), 1)
    places = torch.tensor(PLACES, device=device)[None, :, None].expand(len(false), -1, 1)
    return false.scatter(2, places, to(triples.false, device)[..., None]).flatten(0, 1)


def _local(true: Tensor, false: Tensor, some: Some, regions: Tensor, size: int, margin: float) -> Tensor:
    """ℓ_obj or ℓ_attr: true (m, d), false (m, N, d) against the regions (B, R, d) of their images."""
    owner = to(some.owner, true.device)
    scores = torch.bmm(torch.cat([true[:, None], false], 1), regions[owner].transpose(1, 2))
    costs = relevance_hinges(scores[:, 0], scores[:, 1:], to(some.there, true.device), margin)
    return averaged(costs, owner, size)


def _relations(
    images: Tensor, related: Tensor, false: Tensor, drawn: Drawn, same: Tensor, margin: float
) -> Tensor:
    """ℓ_rel: the hardest of the made negatives, and of the other captions' triples."""
    triples, device = drawn.triples, images.device
    owner = to(triples.owner, device)
    true, mine = related[to(drawn.chosen, device)], images[owner]
    own = (mine * true).sum(1)
    made = (false.view(len(true), len(PLACES), -1) * mine[:, None]).sum(-1)
    costs = made_hinges(own, made, to(triples.there, device), margin)
    return (costs + batch_hinges(mine @ true.T, ~same[owner][:, owner], margin)).sum()


UNIVSE = Objective(
    UniVSE,
    losses,
    source=source,
    draw=draw,
    says=lambda source: f"{sum(len(lists.words) for lists in source.graphs):,} components",
    components=True,
)
