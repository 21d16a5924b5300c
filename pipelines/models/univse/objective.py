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

from ....augment.components.sampling import ComponentSampler
from ..batches import Objective, Terms, TrainingBatch, autocast
from ..config import UniVseConfig
from ..data import KINDS, Corpus, SceneGraphs, component_ids, read_caption_rows, read_whole_table
from ..device import to_device
from ..losses import max_of_hinges, sum_of_hinges
from .model import ComponentVectors, UniVSE, blend, require_graphs


def relevance_hinges(true: Tensor, false: Tensor, margin: float, temperature: float = 1.0) -> Tensor:
    """The hinges (m, N) of ℓ_obj and ℓ_attr: those of the regions, weighted by their relevance (eq. 2 and 3).

    Σ_i r_i [α + s(v_i, w⁻_n) - s(v_i, w⁺)]₊, where the relevances r are a softmax over the regions i of s(v_i, w⁺) / τ.
    The gradient passes through the relevances, too, about which the paper says nothing.

    Args:
        true: (m, R) scores of m components with the R regions of their images.
        false: (m, N, R) scores of the N negatives of each.
        margin: α.
        temperature: τ.
    """
    # the regions where the true word is seen count most: there a false word must not be seen
    relevance = (true / temperature).softmax(-1)[:, None]
    return (relevance * (margin + false - true[:, None]).clamp(min=0)).sum(-1)


def triple_hinges(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """The hinges (m, N) of ℓ_rel, [α + s(v, t⁻_n) - s(v, t⁺)]₊. true: (m,) scores of m triples with their images.
    false: (m, N) scores of N false triples with the same images. margin: α.
    """
    return (margin + false - true[:, None]).clamp(min=0)


def sum_over_kinds(costs: Tensor, present: Tensor, kinds: tuple[int, ...], reduction: str) -> Tensor:
    """The cost (m,) of each component: the costs of its negatives of each kind, such as false nouns and false
    attributes, are reduced to their highest, mean or sum, and these are added up. A kind without negatives adds 0.

    Args:
        costs: (m, N) >= 0, of each component with each of its negatives, the kinds one after the other.
        present: (m, N) bool, which negatives there are.
        kinds: the number of columns of each kind; they add up to N.
        reduction: hardest, mean or sum.
    """
    total = costs.new_zeros(len(costs))
    costs_of_kinds = (costs * present).split(kinds, 1)
    for kind_costs, kind_present in zip(costs_of_kinds, present.split(kinds, 1), strict=True):
        if reduction == "sum":
            total = total + kind_costs.sum(1)
        elif reduction == "mean":
            total = total + kind_costs.sum(1) / kind_present.sum(1).clamp(min=1)
        elif kind_costs.shape[1]:  # `amax` of no columns would fail
            total = total + kind_costs.amax(1)
    return total


# how many words are sampled to make a component false
FALSE_NOUNS = 16  # per object, and per pair
FALSE_ATTRIBUTES = 8  # per pair
FALSE_RELATIONS = 4  # per triple
FALSE_ENDS = 2  # per triple: subjects, and as many objects
OF_A_BATCH = 64  # words of a kind from which those of a batch's captions are drawn
# for each false word of a triple, the index of the word that it replaces
REPLACED_WORD = (0,) * FALSE_ENDS + (1,) * FALSE_RELATIONS + (2,) * FALSE_ENDS


class SampledComponents(NamedTuple):
    """m components of a batch, and up to N words for each that make it false when they replace one of its words.

    rows: (m,) indices in the lists of the scene graphs. owner: (m,) the caption of each component, as an index in the
    batch. false: (m, N) word ids, -1 where there are fewer words. All on the CPU.
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
        """Read the components of the run's captions, its most frequent ones, and which of these exclude each other."""
        components = read_caption_rows(config.run, "components", corpus.captions.ids)
        vocabulary = read_whole_table(config.run, "component_vocabulary")
        exclusions = read_whole_table(config.run, "component_exclusions")
        self.sampler = ComponentSampler(components, vocabulary, exclusions, config.false_words)
        self.graphs = require_graphs(corpus.texts)
        # by kind, the word id of each word that can be sampled; the last entry, at index -1, is -1, for "no word"
        words = self.sampler.words
        self.ids = {kind: torch.tensor([*component_ids(corpus.vocabulary, words[kind]), -1]) for kind in KINDS}

    def __str__(self) -> str:
        return f"{sum(len(lists.words) for lists in self.graphs):,} components"

    def sample(self, captions: Tensor, generator: Generator) -> ComponentBatch:
        """The components of captions (B,), and sampled false ones, which no caption of the image may state.

        A false object is another noun; a false pair has another attribute or noun; a false triple another subject,
        relation or object.
        """
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        # resumed trainings need the same random numbers, so the order of the four draws is fixed
        nouns = self.sampler.nouns(captions.numpy(), FALSE_NOUNS, rng, OF_A_BATCH)
        absent = self.ids["noun"][nouns]  # (B, FALSE_NOUNS) word ids of nouns that are not in the image

        known = self.graphs.objects.known_components(captions)
        objects = SampledComponents(known.rows, known.owner, absent[known.owner])

        known = self.graphs.pairs.known_components(captions)
        attributes = self.sampler.attributes(known.rows.numpy(), FALSE_ATTRIBUTES, rng, OF_A_BATCH)
        false_words = torch.cat([self.ids["attribute"][attributes], absent[known.owner]], 1)
        pairs = SampledComponents(known.rows, known.owner, false_words)

        known = self.graphs.triples.known_components(captions)
        relations = self.sampler.relations(known.rows.numpy(), FALSE_RELATIONS, rng, OF_A_BATCH)
        false_subjects = absent[known.owner, :FALSE_ENDS]
        false_objects = absent[known.owner, FALSE_ENDS : 2 * FALSE_ENDS]
        # in the order of REPLACED_WORD, which tells for each column the word of the triple that it replaces
        false_words = torch.cat([false_subjects, self.ids["relation"][relations], false_objects], 1)
        triples = SampledComponents(known.rows, known.owner, false_words)

        one_each = random_entry_of_each_owner(triples.owner, rng)
        order = torch.from_numpy(rng.random(len(objects.rows) + len(pairs.rows) + len(triples.rows)))
        return ComponentBatch(objects, absent, pairs, triples, one_each, order)


def random_entry_of_each_owner(owner: Tensor, rng: np.random.Generator) -> Tensor:
    """Choose a random entry of each owner: their indices, by ascending owner. owner: (m,), of each entry.

    Of the owners 0 0 2, in the random order 2 1 0, the entries are 2 (of owner 2), 1 and 0 (of 0): the first of each
    owner are 1 and 2.
    """
    shuffled = rng.permutation(len(owner))
    _, first_of_owner = np.unique(owner.numpy()[shuffled], return_index=True)
    return torch.from_numpy(shuffled[first_of_owner])


class WordInputs(NamedTuple):
    """The inputs of φ: the ids of n words (n,), and of their modifiers (n,); a plain noun is its own modifier."""

    words: Tensor
    modifiers: Tensor


class EncodedBatch(NamedTuple):
    """The vectors of a batch of B captions.

    images: (B, d). regions: (B, R, d). sentences: (B, d). triples, false_triples: (m, d) and (m, N, d), N = 0 if the
    loss has no term of relations. words: (u, d), the vectors of all distinct words by φ. nouns, pairs, absent,
    false_pairs: rows of `words`, for each object (m,), pair (p,), absent noun (B, 16) and false pair (p, 24); the last
    two are empty if the loss does not need them.
    """

    images: Tensor
    regions: Tensor
    sentences: Tensor
    triples: Tensor
    false_triples: Tensor
    words: Tensor
    nouns: Tensor
    pairs: Tensor
    absent: Tensor
    false_pairs: Tensor


def univse_losses(
    model: UniVSE, batch: TrainingBatch, sampled: ComponentBatch, config: UniVseConfig, epoch: int
) -> Terms:
    """The terms of UniVSE's loss that the config selects, by name, each a weighted scalar summed over the batch.

    `sent`, `comp`: of sentence vectors and of composed component vectors with images; `cap`: of caption vectors with
    images, if α is learned; `obj`, `attr`, `rel`: of objects, attributed objects and triples against false ones.

    Args:
        model: encodes the batch.
        batch: captions with the features of their images.
        sampled: the true and the false components of these captions.
        config: of the training.
        epoch: from 1.
    """
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges
    comp_weight, obj_weight, attr_weight, rel_weight = config.weights
    with_relations = "rel" in config.contrast and epoch > config.relations_after
    encoded = _encode_batch(model, batch, sampled, config, with_relations)
    images = encoded.images

    terms = {"sent": pair_loss(images @ encoded.sentences.T, config.margin, batch.same_image)}
    if config.components:
        composed = _compose(model, encoded, sampled, len(batch.captions))
        # a caption without components neither has negatives nor is one: such pairs (B, B) are left out
        lacks_components = ~(composed.present[:, None] & composed.present)
        scores = images @ composed.vectors.T
        terms["comp"] = comp_weight * pair_loss(scores, config.margin, batch.same_image | lacks_components)
        if config.learn_alpha:
            captions = blend(encoded.sentences, composed.vectors, composed.present, model.alpha)
            terms["cap"] = pair_loss(images @ captions.T, config.margin, batch.same_image)
    if "obj" in config.contrast:
        terms["obj"] = obj_weight * _object_loss(encoded, sampled, config)
    if "attr" in config.contrast:
        terms["attr"] = attr_weight * _attribute_loss(encoded, sampled, config)
    if with_relations:
        terms["rel"] = rel_weight * _relation_loss(encoded, sampled, batch, config)
    elif "rel" in config.contrast:
        terms["rel"] = images.new_zeros(())
    return terms


def _encode_batch(
    model: UniVSE, batch: TrainingBatch, sampled: ComponentBatch, config: UniVseConfig, with_relations: bool
) -> EncodedBatch:
    """All vectors that the loss of a batch needs: every distinct word by one call of φ, all sentences and triples by
    one of ψ.

    Args:
        model: encodes.
        batch: B captions with the features of their images.
        sampled: the true and the false components of these captions.
        config: of the training; says which false components the loss needs.
        with_relations: whether the loss needs false triples.
    """
    graphs = require_graphs(batch.texts)
    device = batch.features.device
    with autocast(config.amp, device):
        image_vectors = model.image.with_regions(batch.features)
        # true and false triples and the sentences share the prefix tree of one pass
        triples = graphs.triples.words[to_device(sampled.triples.rows, device)]
        false_triples = _replace_words(graphs.triples.words, sampled.triples, device) if with_relations else triples[:0]
        sequences = model.sequences(batch.texts, batch.captions, torch.cat([triples, false_triples]))
        inputs = _word_encoder_inputs(graphs, sampled, config, device)
        words = model.word_encoder.distinct(
            torch.cat([part.words for part in inputs]), torch.cat([part.modifiers for part in inputs])
        )
    # the order is that of the list that `_word_encoder_inputs` returns
    nouns, pairs, absent, false_pairs = words.which.split([len(part.words) for part in inputs])
    true_vectors, false_vectors = sequences.triples.split([len(triples), len(false_triples)])
    # without relations no false triple was encoded
    negatives_of_triple = len(REPLACED_WORD) if with_relations else 0
    return EncodedBatch(
        images=image_vectors.images,
        regions=image_vectors.regions,
        sentences=sequences.sentences,
        triples=true_vectors,
        false_triples=false_vectors.view(len(triples), negatives_of_triple, true_vectors.shape[1]),
        words=words.vectors,
        nouns=nouns,
        pairs=pairs,
        absent=absent.view(-1, FALSE_NOUNS),
        false_pairs=false_pairs.view(-1, FALSE_ATTRIBUTES + FALSE_NOUNS),
    )


def _word_encoder_inputs(
    graphs: SceneGraphs, sampled: ComponentBatch, config: UniVseConfig, device: torch.device
) -> list[WordInputs]:
    """The input of φ: m objects, p pairs, B · 16 absent nouns, p · 24 false pairs; B is the number of captions.

    The last two are empty if the loss does not need them. A missing word (-1) is replaced by word 0; its cost is left
    out when costs are added.

    Args:
        graphs: the components of all texts, as word ids.
        sampled: the components of the batch, true and false.
        config: says which false ones the loss needs.
        device: where the result is to be.
    """
    # objects have one word, pairs are (attribute, noun)
    nouns = graphs.objects.words[to_device(sampled.objects.rows, device), 0]
    pairs = graphs.pairs.words[to_device(sampled.pairs.rows, device)]
    attribute, noun = pairs[:, 0], pairs[:, 1]

    absent = nouns[:0]
    if "obj" in config.contrast:
        absent = to_device(sampled.absent.clamp(min=0), device).flatten()
    false_words = nouns[:0]
    false_modifiers = nouns[:0]
    if "attr" in config.contrast:
        false = to_device(sampled.pairs.false.clamp(min=0), device)
        other_attributes, other_nouns = false.tensor_split([FALSE_ATTRIBUTES], 1)
        # the noun with 8 other attributes, then 16 other nouns with the attribute
        false_words = torch.cat([noun[:, None].expand_as(other_attributes), other_nouns], 1).flatten()
        false_modifiers = torch.cat([other_attributes, attribute[:, None].expand_as(other_nouns)], 1).flatten()
    return [
        WordInputs(nouns, nouns),
        WordInputs(noun, attribute),
        WordInputs(absent, absent),
        WordInputs(false_words, false_modifiers),
    ]


def _replace_words(words: Tensor, triples: SampledComponents, device: torch.device) -> Tensor:
    """The N negatives of each of m sampled triples, (m · N, 3), with one word replaced; words: (t, 3), all triples. A
    negative that is not present equals the triple, whose states the text encoder then computes only once.
    """
    true = words[to_device(triples.rows, device)][:, None].repeat(1, len(REPLACED_WORD), 1)  # (m, N, 3)
    position = torch.tensor(REPLACED_WORD, device=device)[None, :, None].expand(len(true), -1, -1)  # (m, N, 1)
    false = to_device(triples.false, device)[..., None]
    replacement = torch.where(false >= 0, false, true.gather(2, position))
    return true.scatter(2, position, replacement).flatten(0, 1)


def _compose(model: UniVSE, encoded: EncodedBatch, sampled: ComponentBatch, caption_count: int) -> ComponentVectors:
    """The component vector u_comp of each caption of a batch, composed of the vectors of its components.

    Args:
        model: says how they are composed.
        encoded: the vectors of the batch.
        sampled: which component is of which caption, and the random order in which they are composed.
        caption_count: B; a caption without components has no vector.
    """
    vectors = {"obj": encoded.words[encoded.nouns], "attr": encoded.words[encoded.pairs], "rel": encoded.triples}
    owners = {"obj": sampled.objects.owner, "attr": sampled.pairs.owner, "rel": sampled.triples.owner}
    # the sampler gives one number to every component, one kind after the other
    orders = sampled.order.split([len(owner) for owner in owners.values()])
    return model.compose(vectors, owners, caption_count, dict(zip(owners, orders, strict=True)))


def _region_scores(words: Tensor, which: Tensor, owner: Tensor, regions: Tensor) -> Tensor:
    """Scores (m, N, R) of N words with each of the R regions of an image, for each of m components.

    words: (u, d), the vectors of distinct words. which: (m, N), the words of each component, as indices into these.
    owner: (m,), the image of each component, as an index into regions (B, R, d).
    """
    if regions.shape[1] == 1:  # one product of all words with all images costs less than a copy of each word's vector
        return (words @ regions[:, 0].T)[which, owner[:, None]][:, :, None]
    return torch.bmm(words[which], regions[owner].transpose(1, 2))


def _object_loss(encoded: EncodedBatch, sampled: ComponentBatch, config: UniVseConfig) -> Tensor:
    """ℓ_obj, a scalar: each of the m objects in captions against the 16 nouns that its image lacks."""
    device = encoded.regions.device
    owner = to_device(sampled.objects.owner, device)
    every_caption = torch.arange(len(encoded.images), device=device)
    true = _region_scores(encoded.words, encoded.nouns[:, None], owner, encoded.regions)[:, 0]  # (m, R)
    # the absent nouns are scored once for a caption, and serve all of its objects: (m, 16, R)
    false = _region_scores(encoded.words, encoded.absent, every_caption, encoded.regions)[owner]
    costs = relevance_hinges(true, false, config.margin, config.temperature)  # (m, 16)
    present = to_device(sampled.objects.false >= 0, device)
    return mean_over_components(
        sum_over_kinds(costs, present, (FALSE_NOUNS,), config.reduce_obj), owner, len(encoded.images)
    )


def _attribute_loss(encoded: EncodedBatch, sampled: ComponentBatch, config: UniVseConfig) -> Tensor:
    """ℓ_attr, a scalar: each pair against its noun with other attributes, and its attribute with other nouns."""
    device = encoded.regions.device
    owner = to_device(sampled.pairs.owner, device)
    # (p, 1 + 24): each true pair, then its false ones, as indices into the distinct words
    candidates = torch.cat([encoded.pairs[:, None], encoded.false_pairs.view(*sampled.pairs.false.shape)], 1)
    scores = _region_scores(encoded.words, candidates, owner, encoded.regions)
    costs = relevance_hinges(scores[:, 0], scores[:, 1:], config.margin, config.temperature)
    present = to_device(sampled.pairs.false >= 0, device)
    values = sum_over_kinds(costs, present, (FALSE_ATTRIBUTES, FALSE_NOUNS), config.reduce_attr)
    return mean_over_components(values, owner, len(encoded.images))


def _relation_loss(
    encoded: EncodedBatch, sampled: ComponentBatch, batch: TrainingBatch, config: UniVseConfig
) -> Tensor:
    """ℓ_rel, a scalar: each triple against its own negatives, and against a triple of each other image's caption.

    Args:
        encoded: the vectors of the batch: of m triples, N negatives of each, and B images.
        sampled: the triples; `one_each` (b,) are the indices of one triple for each caption that has any.
        batch: says which captions are of the same image.
        config: with the margin, and how costs are added up.
    """
    device = encoded.images.device
    owner = to_device(sampled.triples.owner, device)
    one_each = to_device(sampled.one_each, device)
    image = encoded.images[owner]  # (m, d)
    own_negatives = (encoded.false_triples @ image[:, :, None])[:, :, 0]  # (m, N)
    other_captions = image @ encoded.triples[one_each].T  # (m, b)
    false = torch.cat([own_negatives, other_captions], 1)
    true = (image * encoded.triples).sum(1)
    costs = triple_hinges(true, false, config.margin)

    has_false_word = to_device(sampled.triples.false >= 0, device)  # (m, N)
    is_of_another_image = ~batch.same_image[owner][:, owner[one_each]]  # (m, b)
    present = torch.cat([has_false_word, is_of_another_image], 1)
    values = sum_over_kinds(costs, present, (own_negatives.shape[1], len(one_each)), config.reduce_rel)
    return mean_over_components(values, owner, len(encoded.images))


def mean_over_components(values: Tensor, owner: Tensor, captions: int) -> Tensor:
    """The sum over captions of the mean value of a caption's components, a scalar.

    Args:
        values: (m,) of each component.
        owner: (m,) the caption of each component.
        captions: how many captions there are; one without components adds 0.
    """
    components = torch.bincount(owner, minlength=captions).clamp(min=1)
    return (values / components[owner]).sum()


UNIVSE = Objective(UniVSE, univse_losses, sampler=ComponentSource, needs_components=True)
