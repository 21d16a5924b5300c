"""How UniVSE is trained: false components sampled for a batch, and the terms of its loss (supplement A.1).

s is the inner product of unit vectors; v is an image and v_i its region i; w is an object or attributed object, t a
triple, with ⁺ for true and ⁻ for false ones; α is the margin. A component has several kinds of negatives, such as those
with another noun and those with another attribute. Each kind is reduced on its own, and the kinds are added; a
caption's value is the mean over its components.

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
from ..batches import CaptionBatch, Objective, Terms, autocast
from ..config import UniVseConfig
from ..data import KINDS, Corpus, SceneGraphs, component_ids, read_caption_rows, read_whole_table
from ..device import to_device
from ..losses import max_of_hinges, sum_of_hinges
from .model import UniVSE, blend, require_graphs


def relevance_hinges(true: Tensor, false: Tensor, margin: float, temperature: float = 1.0) -> Tensor:
    """The hinges of ℓ_obj and ℓ_attr: those of the regions, weighted by their relevance (eq. 2 and 3).

    Σ_i r_i [α + s(v_i, w⁻_n) - s(v_i, w⁺)]₊, where the relevances r are a softmax over the regions i of s(v_i, w⁺) / τ
    and τ is `temperature`. true: (m, R) scores of m components with the R regions of their images. false: (m, N, R)
    scores of the N negatives of each. Returns (m, N). The gradient passes through the relevances, too, about which the
    paper says nothing.
    """
    relevance = (true / temperature).softmax(-1)[:, None]
    return (relevance * (margin + false - true[:, None]).clamp(min=0)).sum(-1)


def triple_hinges(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """The hinges of ℓ_rel, [α + s(v, t⁻_n) - s(v, t⁺)]₊. true: (m,) scores of m triples with their images. false: (m,
    N) scores of N false triples with the same images. Returns (m, N).
    """
    return (margin + false - true[:, None]).clamp(min=0)


def sum_over_kinds(costs: Tensor, present: Tensor, kinds: tuple[int, ...], reduction: str) -> Tensor:
    """The sum (m,) over the kinds of negatives of the hardest, mean or summed cost of a kind; 0 for one without any.
    costs: (m, N) >= 0. present: (m, N) bool, which there are. kinds: the number of columns of each.
    """
    total = costs.new_zeros(len(costs))
    for part, those in zip((costs * present).split(kinds, 1), present.split(kinds, 1), strict=True):
        if reduction == "hardest":
            total = total + (part.amax(1) if part.shape[1] else 0)
        else:
            total = total + part.sum(1) / (those.sum(1).clamp(min=1) if reduction == "mean" else 1)
    return total


FALSE_NOUNS = 16
FALSE_ATTRIBUTES = 8  # per object: nouns; per pair: attributes and nouns
OF_A_BATCH = 64  # words of a kind from which those of a batch's captions are drawn
FALSE_RELATIONS = 4
FALSE_ENDS = 2  # per triple: relations; subjects, and as many objects
# the index in the triple that each false word replaces
REPLACED_WORD = (0,) * FALSE_ENDS + (1,) * FALSE_RELATIONS + (2,) * FALSE_ENDS


class SampledComponents(NamedTuple):
    """m components of a batch, with up to N words for each; a word put into the component makes it false. rows: (m,)
    indices in the lists of the scene graphs. owner: (m,) the index in the batch of the caption of each. false: (m, N)
    word ids, -1 where there are fewer words. All on the CPU.
    """

    rows: Tensor
    owner: Tensor
    false: Tensor


class ComponentBatch(NamedTuple):
    """All objects, pairs (attributed objects) and triples of a batch's captions, with false ones.

    absent: (B, 16) nouns that are not in the captions' images, or -1. one_each: (b,) a random triple of each caption
    that has any, as an index into `triples`: those that are negatives of the other captions' triples. order: a random
    number for each object, pair and triple, in this order.
    """

    objects: SampledComponents
    absent: Tensor
    pairs: SampledComponents
    triples: SampledComponents
    one_each: Tensor
    order: Tensor


class ComponentSource:
    """Samples components of captions and false ones. Raises FileNotFoundError or ValueError for unfit tables."""

    def __init__(self, config: UniVseConfig, corpus: Corpus, train: Tensor) -> None:
        components = read_caption_rows(config.run, "components", corpus.captions.ids)
        names = ("component_vocabulary", "component_exclusions")
        vocabulary, excluded = (read_whole_table(config.run, name) for name in names)
        self.sampler = Sampler(components, vocabulary, excluded, config.false_words)
        self.graphs = require_graphs(corpus.texts)
        # the word ids of what is sampled, by kind: a sample of -1, no word, has the id -1
        words = self.sampler.words
        self.ids = {kind: torch.tensor([*component_ids(corpus.vocabulary, words[kind]), -1]) for kind in KINDS}

    def __str__(self) -> str:
        return f"{sum(len(lists.words) for lists in self.graphs):,} components"

    def sample(self, captions: Tensor, generator: Generator) -> ComponentBatch:
        """The components of captions (B,), and sampled false ones, which no caption of the image may state."""
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        sampler = self.sampler
        graphs = self.graphs
        ids = self.ids
        absent = ids["noun"][sampler.nouns(captions.numpy(), FALSE_NOUNS, rng, OF_A_BATCH)]
        rows, owner = graphs.objects.known_components(captions)
        objects = SampledComponents(rows, owner, absent[owner])
        rows, owner = graphs.pairs.known_components(captions)
        attributes = ids["attribute"][sampler.attributes(rows.numpy(), FALSE_ATTRIBUTES, rng, OF_A_BATCH)]
        pairs = SampledComponents(rows, owner, torch.cat([attributes, absent[owner]], 1))
        rows, owner = graphs.triples.known_components(captions)
        subjects, others = absent[owner, : 2 * FALSE_ENDS].split(FALSE_ENDS, 1)
        relations = ids["relation"][sampler.relations(rows.numpy(), FALSE_RELATIONS, rng, OF_A_BATCH)]
        triples = SampledComponents(rows, owner, torch.cat([subjects, relations, others], 1))
        shuffled = torch.from_numpy(rng.permutation(len(owner)))
        shuffled = shuffled[owner[shuffled].argsort(stable=True)]
        first = owner[shuffled].diff(prepend=owner.new_full((1,), -1)) != 0
        order = torch.from_numpy(rng.random(len(objects.rows) + len(pairs.rows) + len(triples.rows)))
        return ComponentBatch(objects, absent, pairs, triples, shuffled[first], order)


def univse_losses(
    model: UniVSE, batch: CaptionBatch, sampled: ComponentBatch, config: UniVseConfig, epoch: int
) -> Terms:
    """The terms of the loss that config selects, by name, each a weighted scalar summed over the batch.

    `sent`, `comp`: of sentence vectors and of composed component vectors with images; `cap`: of caption vectors with
    images, if α is learned; `obj`, `attr`, `rel`: of objects, attributed objects and triples against false ones.
    sampled: the components. epoch: from 1.
    """
    graphs = require_graphs(batch.texts)
    device = batch.features.device
    size = len(batch.captions)
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges
    comp_weight, obj_weight, attr_weight, rel_weight = config.weights
    with_relations = "rel" in config.contrast and epoch > config.relations_after
    with autocast(config, device):
        images, regions = model.image.with_regions(batch.features)
        triples = graphs.triples.words[to_device(sampled.triples.rows, device)]
        false_triples = _replace_words(graphs.triples.words, sampled.triples, device) if with_relations else triples[:0]
        sentences, relations = model.sequences(batch.texts, batch.captions, torch.cat([triples, false_triples]))
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
    graphs: SceneGraphs, sampled: ComponentBatch, config: UniVseConfig, device: torch.device
) -> list[tuple[Tensor, Tensor]]:
    """The input of φ as (words, modifiers): objects, pairs, absent nouns (B · 16,), false pairs (m · 24,). A missing
    word (-1) is replaced by word 0; who adds the costs leaves it out. m: number of pairs, B: of captions.
    """
    nouns = graphs.objects.words[to_device(sampled.objects.rows, device), 0]
    pairs = graphs.pairs.words[to_device(sampled.pairs.rows, device)]
    absent = to_device(sampled.absent.clamp(min=0), device).flatten() if "obj" in config.contrast else nouns[:0]
    inputs = [(nouns, nouns), (pairs[:, 1], pairs[:, 0]), (absent, absent)]
    if "attr" not in config.contrast:
        return [*inputs, (nouns[:0], nouns[:0])]
    attributes, others = to_device(sampled.pairs.false.clamp(min=0), device).tensor_split([FALSE_ATTRIBUTES], 1)
    attribute, noun = pairs.T[:, :, None]
    words = torch.cat([noun.expand_as(attributes), others], 1)
    modifiers = torch.cat([attributes, attribute.expand_as(others)], 1)
    return [*inputs, (words.flatten(), modifiers.flatten())]


def _replace_words(words: Tensor, triples: SampledComponents, device: torch.device) -> Tensor:
    """The N negatives of each of m sampled triples, (m · N, 3), with one word replaced; words: (t, 3), all triples. A
    negative that is not present equals the triple, whose states the text encoder then computes only once.
    """
    true = words[to_device(triples.rows, device)][:, None].repeat(1, len(REPLACED_WORD), 1)
    places = torch.tensor(REPLACED_WORD, device=device)
    false = to_device(triples.false, device)[..., None]
    places = places[None, :, None].expand(len(true), -1, -1)
    return true.scatter(2, places, torch.where(false >= 0, false, true.gather(2, places))).flatten(0, 1)


def _region_scores(vectors: Tensor, which: Tensor, owner: Tensor, regions: Tensor) -> Tensor:
    """Scores (m, N, R) of N words with each of the R regions of an image. vectors: (u, d), distinct words. which: (m,
    N), the words. owner: (m,), their image in regions (B, R, d).
    """
    if regions.shape[1] == 1:  # one product of all words with all images costs less than a copy of each word's vector
        return (vectors @ regions[:, 0].T)[which, owner[:, None]][:, :, None]
    return torch.bmm(vectors[which], regions[owner].transpose(1, 2))


def _loss(
    costs: Tensor,
    components: SampledComponents,
    kinds: tuple[int, ...],
    size: int,
    reduction: str,
    others: Tensor | None = None,
) -> Tensor:
    """The sum over a batch of `size` captions of the mean of what `sum_over_kinds` makes of their components' costs.
    others: (m, N - n) bool, which there are of the negatives behind those that were sampled (m, n).
    """
    present, owner = (to_device(part, costs.device) for part in (components.false >= 0, components.owner))
    values = sum_over_kinds(costs, present if others is None else torch.cat([present, others], 1), kinds, reduction)
    return (values / torch.bincount(owner, minlength=size).clamp(min=1)[owner]).sum()


def _relation_loss(
    images: Tensor, true: Tensor, false: Tensor, sampled: ComponentBatch, batch: CaptionBatch, config: UniVseConfig
) -> Tensor:
    """ℓ_rel, a scalar: each triple against its own negatives, and against a triple of each other image's caption.
    images: (B, d). true: (m, d), all triples of the batch. false: (m, N, d), the negatives made of them.
    """
    owner, others = (to_device(part, images.device) for part in (sampled.triples.owner, sampled.one_each))
    own = images[owner]
    scores = torch.cat([(false @ own[:, :, None])[:, :, 0], own @ true[others].T], 1)
    costs = triple_hinges((own * true).sum(1), scores, config.margin)
    different_images = ~batch.same_image[owner][:, owner[others]]
    kinds = (false.shape[1], len(others))
    return _loss(costs, sampled.triples, kinds, len(images), config.reduce_rel, different_images)


UNIVSE = Objective(UniVSE, univse_losses, sampler=ComponentSource, needs_components=True)
