"""How UniVSE is trained: what it draws of the components, and the terms of its loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from negcap.augment.components.sampling import Sampler
from negcap.pipelines.models.components import KINDS, lookup, read_rows, read_whole
from negcap.pipelines.models.losses import max_of_hinges, sum_of_hinges
from negcap.pipelines.models.sampling import to
from negcap.pipelines.models.texts import Graphs
from negcap.pipelines.models.trainer.config import TrainConfig
from negcap.pipelines.models.trainer.objective import Batch, Objective, Tables, mixed
from negcap.pipelines.models.univse.losses import averaged, batch_hinges, made_hinges, relevance_hinges
from negcap.pipelines.models.univse.model import UniVSE, components_of
from negcap.pipelines.models.univse.tasks import tasks

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

    absent: (B, 16) nouns that are not in the captions' images; every: numbers and owners of all triples, for the
    composition; chosen: which of them are `triples`.
    """

    objects: Some
    absent: Tensor
    pairs: Some
    triples: Some
    every: tuple[Tensor, Tensor]
    chosen: Tensor


def source(config: TrainConfig, tables: Tables) -> Source:
    """What negatives are drawn from. Raises ValueError and FileNotFoundError for tables that are missing."""
    components = read_rows(config.run, "components", tables.captions.ids)
    exclusions = read_whole(config.run, "component_exclusions")
    sampler = Sampler(components, read_whole(config.run, "component_vocabulary"), exclusions)
    words = {kind: np.array(lookup(tables.vocabulary, sampler.words[kind]), np.int64) for kind in KINDS}
    return Source(components_of(tables.texts), sampler, words)


def draw(source: Source, captions: Tensor, config: TrainConfig, generator: Generator) -> Drawn:
    """The components of captions (B,) and negatives of them, as the paper's supplement draws them (A.1)."""
    rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    sampler, graphs, names = source.sampler, source.graphs, captions.numpy()

    def ids(kind: str, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        words = source.words[kind]
        return words[drawn] if len(words) else np.zeros(drawn.shape, np.int64), drawn >= 0

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
    return Drawn(
        objects, torch.from_numpy(nouns), pairs, _some(at, owner, [ends[0], relations, ends[1]]), every, chosen
    )


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
    every, of_every = drawn.every
    with mixed(config, device):
        images, regions = model.image.with_regions(batch.features)
        triples = graphs.triples.words[to(every, device)]
        made = _replaced(graphs.triples.words, drawn.triples, device) if relating else triples[:0]
        sentences, related = model.sequences(batch.texts, batch.captions, torch.cat([triples, made]))
        words = _described(graphs, drawn, config, device)
        vectors = model.word(*(torch.cat(ids) for ids in zip(*words, strict=True)))
    nouns, described, absent, false = vectors.split([len(nouns) for nouns, _ in words])
    related, made = related.split([len(triples), len(made)])
    terms = {"sent": pair_loss(images @ sentences.T, config.margin, batch.same)}
    if config.components:
        kinds = {"obj": nouns, "attr": described, "rel": related}
        owners = {"obj": drawn.objects.owner, "attr": drawn.pairs.owner, "rel": of_every}
        composed, there = model.compose(kinds, owners, size)
        without = ~(there[:, None] & there)  # these are no one's negatives, and have none
        terms["comp"] = comp * pair_loss(images @ composed.T, config.margin, batch.same | without)
    if "obj" in config.contrast:
        local = _object_scores(nouns, absent.view(size, NOUNS, vectors.shape[1]), drawn.objects, regions)
        terms["obj"] = obj * _local(*local, drawn.objects, size, config)
    if "attr" in config.contrast:
        local = _pair_scores(described, false.view(*drawn.pairs.false.shape, vectors.shape[1]), drawn.pairs, regions)
        terms["attr"] = attr * _local(*local, drawn.pairs, size, config)
    if relating:
        true = related[to(drawn.chosen, device)]
        terms["rel"] = rel * _relations(images, true, made, drawn.triples, batch.same, config.margin)
    elif "rel" in config.contrast:
        terms["rel"] = images.new_zeros(())
    return terms


def _described(graphs: Graphs, drawn: Drawn, config: TrainConfig, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """What φ is asked for, (nouns, modifiers): objects, pairs, absent nouns (B · 16,), false pairs (m · 24,)."""
    nouns = graphs.objects.words[to(drawn.objects.at, device), 0]
    said = graphs.pairs.words[to(drawn.pairs.at, device)]
    absent = to(drawn.absent, device).flatten() if "obj" in config.contrast else nouns[:0]
    asked = [(nouns, nouns), (said[:, 1], said[:, 0]), (absent, absent)]
    if "attr" not in config.contrast:
        return [*asked, (nouns[:0], nouns[:0])]
    false = to(drawn.pairs.false, device)
    same = said[:, None].expand(-1, false.shape[1], -1)
    of_nouns = torch.cat([same[:, :ATTRIBUTES, 1], false[:, ATTRIBUTES:]], 1)
    modifiers = torch.cat([false[:, :ATTRIBUTES], same[:, ATTRIBUTES:, 0]], 1)
    return [*asked, (of_nouns.flatten(), modifiers.flatten())]


def _replaced(words: Tensor, triples: Some, device: torch.device) -> Tensor:
    """The negatives of triples, (m · N, 3)."""
    false = words[to(triples.at, device)][:, None].repeat(1, len(PLACES), 1)
    places = torch.tensor(PLACES, device=device)[None, :, None].expand(len(false), -1, 1)
    return false.scatter(2, places, to(triples.false, device)[..., None]).flatten(0, 1)


def _object_scores(true: Tensor, absent: Tensor, objects: Some, regions: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of objects (m, d) and of what is absent (B, N, d) with the regions (B, R, d): (m, R), (m, N, R)."""
    counts = torch.bincount(objects.owner, minlength=len(regions))
    place = torch.arange(len(objects.owner)) - (counts.cumsum(0) - counts)[objects.owner]
    owner, place = to(objects.owner, true.device), to(place, true.device)
    some = true.new_zeros(len(regions), int(counts.max()), true.shape[1]).index_put((owner, place), true)
    scores = torch.bmm(torch.cat([some, absent], 1), regions.transpose(1, 2))
    return scores[owner, place], scores[:, some.shape[1] :][owner]


def _pair_scores(true: Tensor, false: Tensor, pairs: Some, regions: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of pairs (m, d) and false ones (m, N, d) with the regions (B, R, d): (m, R), (m, N, R)."""
    own = regions[to(pairs.owner, true.device)].transpose(1, 2)
    scores = torch.bmm(torch.cat([true[:, None], false], 1), own)
    return scores[:, 0], scores[:, 1:]


def _local(true: Tensor, false: Tensor, some: Some, size: int, config: TrainConfig) -> Tensor:
    """ℓ_obj or ℓ_attr of scores true (m, R) and false (m, N, R)."""
    costs = relevance_hinges(true, false, to(some.there, true.device), config.margin, config.temperature)
    return averaged(costs, to(some.owner, true.device), size)


def _relations(images: Tensor, true: Tensor, made: Tensor, triples: Some, same: Tensor, margin: float) -> Tensor:
    """ℓ_rel of triples (m, d): the hardest of the negatives made of them (m · N, d), and of the other captions'."""
    owner = to(triples.owner, images.device)
    mine = images[owner]
    false = (made.view(len(true), len(PLACES), true.shape[1]) * mine[:, None]).sum(-1)
    costs = made_hinges((mine * true).sum(1), false, to(triples.there, images.device), margin)
    return (costs + batch_hinges(mine @ true.T, ~same[owner][:, owner], margin)).sum()


UNIVSE = Objective(
    UniVSE,
    losses,
    source=source,
    draw=draw,
    says=lambda source: f"{sum(len(lists.words) for lists in source.graphs):,} components",
    components=True,
    tasks=tasks,
)
