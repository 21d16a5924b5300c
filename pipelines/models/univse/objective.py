"""How UniVSE is trained: the terms of its loss on a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from ..config import TrainConfig
from ..device import to_device
from ..losses import max_of_hinges, sum_of_hinges
from ..objective import Batch, Objective, autocast
from ..texts import SceneGraphs
from .losses import (
    REDUCTIONS,
    relevance_hinges,
    sum_of_caption_means,
    sum_over_kinds,
    triple_hinges,
)
from .model import UniVSE, blend, require_graphs
from .sampling import (
    FALSE_ATTRIBUTES,
    FALSE_NOUNS,
    REPLACED_WORD,
    ComponentBatch,
    SampledComponents,
    component_source,
    sample_components,
)


def univse_losses(
    model: UniVSE, batch: Batch, sampled: ComponentBatch, config: TrainConfig, epoch: int
) -> dict[str, Tensor]:
    """The terms of the loss that config selects, by name, each a weighted scalar summed over the batch.

    `sent`, `comp`: of sentence vectors and of composed component vectors with images; `cap`: of caption vectors with
    images, if α is learned; `obj`, `attr`, `rel`: of objects,
    attributed objects and triples against false ones. sampled: the components. epoch: from 1.
    """
    graphs, device, size = require_graphs(batch.texts), batch.features.device, len(batch.captions)
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges
    comp_weight, obj_weight, attr_weight, rel_weight = config.weights
    with_relations = "rel" in config.contrast and epoch > config.relations_after
    with autocast(config, device):
        images, regions = model.image.with_regions(batch.features)
        triples = graphs.triples.words[to_device(sampled.triples.rows, device)]
        false_triples = _replace_words(graphs.triples.words, sampled.triples, device) if with_relations else triples[:0]
        sequences = torch.cat([triples, false_triples])
        sentences, relations = model.sequences(batch.texts, batch.captions, sequences)
        words = _word_encoder_inputs(graphs, sampled, config, device)
        vectors, which = model.word_encoder.distinct(*(torch.cat(ids) for ids in zip(*words, strict=True)))
    nouns, pairs, absent, false_pairs = which.split([len(ids) for ids, _ in words])
    relations, false_relations = relations.split([len(triples), len(false_triples)])
    terms = {"sent": pair_loss(images @ sentences.T, config.margin, batch.same_image)}
    if config.components:
        kinds = {"obj": vectors[nouns], "attr": vectors[pairs], "rel": relations}
        owners = {"obj": sampled.objects.owner, "attr": sampled.pairs.owner, "rel": sampled.triples.owner}
        order = dict(zip(kinds, sampled.order.split([len(owner) for owner in owners.values()]), strict=True))
        composed, present = model.compose(kinds, owners, size, order)
        without = ~(present[:, None] & present)  # a caption without components neither has negatives nor is one
        terms["comp"] = comp_weight * pair_loss(images @ composed.T, config.margin, batch.same_image | without)
        if config.learn_alpha:
            captions = blend(sentences, composed, present, model.alpha)
            terms["cap"] = pair_loss(images @ captions.T, config.margin, batch.same_image)
    if "obj" in config.contrast:
        of_objects = to_device(sampled.objects.owner, device)
        of_captions = torch.arange(size, device=device)
        true = _region_scores(vectors, nouns[:, None], of_objects, regions)[:, 0]
        false = _region_scores(vectors, absent.view(size, FALSE_NOUNS), of_captions, regions)[of_objects]
        costs = relevance_hinges(true, false, config.margin, config.temperature)
        terms["obj"] = obj_weight * _loss(costs, sampled.objects, (FALSE_NOUNS,), size, config.reduce_obj)
    if "attr" in config.contrast:
        candidates = torch.cat([pairs[:, None], false_pairs.view(*sampled.pairs.false.shape)], 1)
        scores = _region_scores(vectors, candidates, to_device(sampled.pairs.owner, device), regions)
        costs = relevance_hinges(scores[:, 0], scores[:, 1:], config.margin, config.temperature)
        both = (FALSE_ATTRIBUTES, FALSE_NOUNS)
        terms["attr"] = attr_weight * _loss(costs, sampled.pairs, both, size, config.reduce_attr)
    if with_relations:
        false_relations = false_relations.view(len(relations), len(REPLACED_WORD), relations.shape[1])
        terms["rel"] = rel_weight * _relation_loss(images, relations, false_relations, sampled, batch, config)
    elif "rel" in config.contrast:
        terms["rel"] = images.new_zeros(())
    return terms


def _word_encoder_inputs(
    graphs: SceneGraphs, sampled: ComponentBatch, config: TrainConfig, device: torch.device
) -> list[tuple[Tensor, Tensor]]:
    """The input of φ as (words, modifiers): objects, pairs, absent nouns (B · 16,), false pairs (m · 24,)."""
    nouns = graphs.objects.words[to_device(sampled.objects.rows, device), 0]
    pairs = graphs.pairs.words[to_device(sampled.pairs.rows, device)]
    absent = to_device(sampled.absent, device).flatten() if "obj" in config.contrast else nouns[:0]
    inputs = [(nouns, nouns), (pairs[:, 1], pairs[:, 0]), (absent, absent)]
    if "attr" not in config.contrast:
        return [*inputs, (nouns[:0], nouns[:0])]
    false = to_device(sampled.pairs.false, device)
    true = pairs[:, None].expand(-1, false.shape[1], -1)
    words = torch.cat([true[:, :FALSE_ATTRIBUTES, 1], false[:, FALSE_ATTRIBUTES:]], 1)
    modifiers = torch.cat([false[:, :FALSE_ATTRIBUTES], true[:, FALSE_ATTRIBUTES:, 0]], 1)
    return [*inputs, (words.flatten(), modifiers.flatten())]


def _replace_words(words: Tensor, triples: SampledComponents, device: torch.device) -> Tensor:
    """The N negatives of each of m sampled triples, (m · N, 3), with one word replaced; words: (t, 3), all triples.

    A negative that is not present equals the triple, whose states the text encoder then computes only once.
    """
    true = words[to_device(triples.rows, device)]
    places = torch.tensor(REPLACED_WORD, device=device)
    false = torch.where(to_device(triples.present, device), to_device(triples.false, device), true[:, places])
    copies = true[:, None].repeat(1, len(places), 1)
    return copies.scatter(2, places[None, :, None].expand(len(copies), -1, 1), false[..., None]).flatten(0, 1)


def _region_scores(vectors: Tensor, which: Tensor, owner: Tensor, regions: Tensor) -> Tensor:
    """Scores (m, N, R) of N words with each of the R regions of an image.

    vectors: (u, d), distinct words. which: (m, N), the words. owner: (m,), their image in regions (B, R, d).
    """
    if regions.shape[1] == 1:  # one product of all words with all images costs less than a copy of each word's vector
        return (vectors @ regions[:, 0].T)[which, owner[:, None]][:, :, None]
    return torch.bmm(vectors[which], regions[owner].transpose(1, 2))


def _loss(costs: Tensor, components: SampledComponents, kinds: tuple[int, ...], size: int, reduce: str) -> Tensor:
    """A component loss of a batch of `size` captions, a scalar, from the costs (m, N) of the components' negatives.

    kinds: how many of the N negatives belong to each kind. reduce: a key of REDUCTIONS.
    """
    present, owner = (to_device(part, costs.device) for part in (components.present, components.owner))
    return sum_of_caption_means(sum_over_kinds(costs, present, kinds, REDUCTIONS[reduce]), owner, size)


def _relation_loss(
    images: Tensor, true: Tensor, false: Tensor, sampled: ComponentBatch, batch: Batch, config: TrainConfig
) -> Tensor:
    """ℓ_rel, a scalar: each triple against its own negatives, and against a triple of each other image's caption.

    images: (B, d). true: (m, d), all triples of the batch. false: (m, N, d), the negatives made of them.
    """
    owner, others = (to_device(part, images.device) for part in (sampled.triples.owner, sampled.one_each))
    own = images[owner]
    true_scores = (own * true).sum(1)
    made = triple_hinges(true_scores, (false @ own[:, :, None])[:, :, 0], config.margin)
    in_batch = triple_hinges(true_scores, own @ true[others].T, config.margin)
    different_images = ~batch.same_image[owner][:, owner[others]]
    present = torch.cat([to_device(sampled.triples.present, images.device), different_images], 1)
    triples = sampled.triples._replace(present=present)
    kinds = (made.shape[1], in_batch.shape[1])
    return _loss(torch.cat([made, in_batch], 1), triples, kinds, len(images), config.reduce_rel)


UNIVSE = Objective(
    UniVSE,
    univse_losses,
    sampler=component_source,
    sample=sample_components,
    describe=lambda source: f"{sum(len(lists.words) for lists in source.graphs):,} components",
    needs_components=True,
)
