"""The protocols of an evaluation: plain retrieval, attacks, the plural split, and pairs of caption and negative.

Attacks: negatives are added to the candidate captions, and the best true caption of each image is ranked again.

VSE-C (Shi et al. 2018, Tables 2 to 4): the candidates of an image are all captions and the negatives of its own ones.
UniVSE (Wu et al. 2019, Table 2): all images share their candidates, the captions and up to 5 negatives of each.

A model must not know more of a negative than of a caption, of which it sees only the text. So its components do not
come from the edit that made it: the parser of the run's captions parses it, with the same kinds of mistakes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from ....augment.operators import OPERATORS, PRESETS, UNIFORM
from ...engine.manifest import read_manifest
from ...engine.tables import hash_table, read_table
from ..checkpoint import Arrays, cached_arrays
from ..config import EvaluateConfig
from ..data import ComponentLists, Corpus, SceneGraphs, encode_components, places_in_groups
from ..figures import bootstrap, percentile_interval, ratios_with_intervals
from ..vocabulary import WordVocabulary
from . import retrieval
from .retrieval import EmbeddedSplit, Ranks

VSE_C = (*PRESETS["vse-c"], *PRESETS["vse-c-paper"])
FAMILIES: Mapping[str, tuple[str, ...]] = {
    family: tuple(name for name in VSE_C if OPERATORS[name].family == family)
    for family in dict.fromkeys(OPERATORS[name].family for name in VSE_C)
}  # the operators of VSE-C's attacks, by family


# The negatives (P,) of a split that each attack adds, as indices among the M negatives of the corpus. "vse-c:noun":
# VSE-C's attacks by family, and "vse-c:total". "univse:noun": UniVSE's by operator, shared by all images.
# "plural:numeral": VSE-C's Table 4, a number above one for another. "pairs:noun": by operator, the first negative of
# each caption, for the pairwise comparison with it.
Attacks = Mapping[str, Tensor]


def choose_attacks(corpus: Corpus, captions: Tensor, config: EvaluateConfig) -> Attacks:
    """The negatives of captions (n,) that the attacks use; config: the maximum number per caption in each. Only those
    attack whose words the model knows: what it reads as <unk> is told from a caption without a look at the image.
    """

    def first(operators: Sequence[str], limit: int, of: Tensor = corpus.known) -> Tensor:
        return first_negatives(corpus, captions, corpus.made_by(operators) & of, limit)

    families = {f"vse-c:{name}": first(made, config.per_family) for name, made in FAMILIES.items()}
    univse = {name: (name, f"{UNIFORM}{name}") for name in PRESETS["univse"]}
    known = {name: made for name, made in univse.items() if set(made) & set(corpus.operators)}
    shared = {f"univse:{name}": first(made, config.per_operator) for name, made in known.items()}
    plural = first_negatives(corpus, captions, corpus.was_plural & corpus.is_plural & corpus.known, config.per_family)
    pairs = {f"pairs:{name}": first([name], 1, torch.ones_like(corpus.known)) for name in corpus.operators}
    return {"vse-c:total": torch.cat([*families.values()]), **families, **shared, "plural:numeral": plural, **pairs}


def complete_captions(corpus: Corpus, captions: Tensor, least: int) -> Tensor:
    """Captions of images whose captions all have `least` negatives of each of FAMILIES. Raises ValueError if none."""
    image = corpus.captions.image
    few = torch.zeros(corpus.texts.captions, dtype=torch.bool)
    for made in FAMILIES.values():
        owners = corpus.negative_caption[corpus.made_by(made) & corpus.known]
        few |= torch.bincount(owners, minlength=corpus.texts.captions) < least
    kept = captions[~torch.isin(image[captions], image[captions[few[captions]]])]
    if not len(kept):
        rule = f"{least} negatives of {', '.join(FAMILIES)} each"
        raise ValueError(f"complete must leave an image: none has captions with {rule}")
    return kept


def first_negatives(corpus: Corpus, captions: Tensor, wanted: Tensor, limit: int) -> Tensor:
    """The indices (P,) of up to `limit` negatives per caption (n,), of those that are `wanted` (M,), a mask. The first
    negative of each operator comes before the second ones, and so on.
    """
    chosen = torch.zeros(corpus.texts.captions, dtype=torch.bool)
    chosen[captions] = True
    rows = (wanted & chosen[corpus.negative_caption]).nonzero()[:, 0]
    key = corpus.draw[rows].long() * (len(corpus.operators) + 1) + corpus.operator[rows]
    rows = rows[key.argsort(stable=True)]
    rows = rows[corpus.negative_caption[rows].argsort(stable=True)]
    return rows[places_in_groups(corpus.negative_caption[rows]) < limit]


def score_negatives(split: EmbeddedSplit, attacks: Attacks, best: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The similarity (M,) of each negative with the image of its caption, NaN for those of no attack; and by attack of
    UniVSE, for each image (I,) the number of its negatives that score at least as high as the image's best caption.
    Every negative is embedded once, and only its scores are kept. best: (I,) the score of each image's best caption.
    """
    corpus = split.corpus
    images = split.images
    similarity = split.model.similarity
    outranking = {name: torch.zeros_like(best, dtype=torch.long) for name in attacks if name.startswith("univse:")}
    shared = torch.zeros(len(outranking), len(corpus.operator), dtype=torch.bool)
    for inside, name in zip(shared, outranking, strict=True):
        inside[attacks[name]] = True
    negatives = torch.cat([*attacks.values()]).unique()
    image_of = split.image_of_negative(negatives)
    own = torch.full((len(corpus.operator),), torch.nan)
    for places, vectors in retrieval.embed_in_batches(
        split.model.sentences, corpus.texts, corpus.texts.captions + negatives
    ):
        rows = negatives[places]
        own[rows] = similarity.pairs(images[image_of[places].to(images.device)], vectors).cpu()
        for inside, counts in zip(shared, outranking.values(), strict=True):
            counts += retrieval.count_outranking(images, best, vectors[inside[rows].to(vectors.device)], similarity)
    return own, outranking


def ranks_with_own_negatives(ranks: Ranks, own: Tensor, negatives: Tensor, owner: Tensor) -> Tensor:
    """The rank (I,), from 1, of each image's best caption when the image's own negatives join its candidates. ranks:
    without these negatives. own: (M,) score of every negative with the image of its caption. negatives: (P,) indices of
    those that join. owner: (P,) the image of each.
    """
    outranks = (own[negatives] > ranks.best.cpu()[owner] - retrieval.TIE).long()
    return ranks.images.cpu() + torch.zeros(len(ranks.images), dtype=torch.long).index_add(0, owner, outranks)


AT_ONCE = 1 << 14  # texts parsed at a time
LAYOUT = 1  # version of the arrays in the cache


def with_negatives(
    run: Path, graphs: SceneGraphs, negatives: Tensor, corpus: Corpus, spacy_model: str | None = None
) -> SceneGraphs:
    """The components of a run's C captions followed by those of its M negatives; only `negatives` (P,) have any.
    graphs: of the captions. spacy_model: the pipeline that parsed the run, needed if the run's manifest names none that
    can be loaded; None: the one it names. Raises ValueError for a pipeline that is not installed, or a damaged cache.
    """
    if not len(negatives):
        return graphs
    settings = parser_settings(run, spacy_model)
    tables = [hash_table(run, "negatives"), hash_table(run, "components")]
    rows = corpus.row[negatives].numpy()
    chosen = hashlib.sha256(rows.tobytes()).hexdigest()
    identity = [LAYOUT, corpus.vocabulary.sha256, *tables, settings, chosen]

    def parsed() -> Arrays:
        every = pa.chunked_array([table["text"].combine_chunks() for table in read_table(run, "negatives", ["text"])])
        made = parse_graphs(every.take(pa.array(rows)).combine_chunks(), corpus.vocabulary, settings)
        parts = {kind: lists._asdict() for kind, lists in made._asdict().items()}
        return {f"{kind}.{part}": tensor for kind, its in parts.items() for part, tensor in its.items()}, {}

    found, _ = cached_arrays(run, "components-", identity, parsed)
    lists = []
    for kind, captions in graphs._asdict().items():
        sizes = torch.zeros(len(corpus.operator), dtype=torch.long)
        sizes[negatives] = found[f"{kind}.offsets"].diff()
        words = torch.cat([captions.words, found[f"{kind}.words"].to(captions.words.device)])
        lists.append(ComponentLists(words, torch.cat([captions.offsets, captions.offsets[-1] + sizes.cumsum(0)])))
    return SceneGraphs(*lists)


def parser_settings(run: Path, spacy_model: str | None = None) -> dict[str, Any]:
    """How a run's captions were parsed, for `parse_graphs`; spacy_model: another pipeline, None for the run's own."""
    manifests = {table: read_manifest(run / table) for table in ("parses", "components")}
    parses, components = ({} if made is None else made.identity.config for made in manifests.values())
    found = {"spacy_model": spacy_model or parses.get("spacy_model"), "parser": parses.get("parser")}
    return {**found, "simple": bool(components.get("simple"))}


def parse_graphs(texts: pa.Array, vocabulary: WordVocabulary, settings: Mapping[str, Any]) -> SceneGraphs:
    """The components of texts, parsed as the captions of a run are; settings: see `parser_settings`."""
    from ....augment.caption import from_parses
    from ....augment.components.vocabulary import tabulate
    from ....augment.language.parse import parse_table
    from ....augment.scene_graph import scene_graph

    parts = []
    for start in range(0, len(texts), AT_ONCE):
        part = texts.slice(start, AT_ONCE)
        ids = pa.array([str(n) for n in range(len(part))])
        empty = pa.array([""] * len(part))
        captions = pa.table([ids, ids, empty, empty, part], ["caption_id", "image_id", "split", "origin", "text"])
        parses = parse_table(captions, settings["spacy_model"])
        found = [scene_graph(caption, settings["simple"]) for caption in from_parses(parses)]
        parts.append(tabulate(parses, found))
    return encode_components(pa.concat_tables(parts), vocabulary, torch.device("cpu"))


FOLD = 1000
FOLDED_FROM = 5000  # images per fold; folds are used for splits of at least 5,000 images


def rank_rows(candidates: str, direction: str, queries: list[str], ranks: Tensor) -> pd.DataFrame:
    """The ranks (n,) of the n queries of one retrieval, counted from 1, as rows of the table `ranks`. candidates:
    "plain", "plain:de" for captions of a further language, or the attack whose negatives are added, such as
    "vse-c:noun". direction: "i2t" (an image queries captions) or "t2i". queries: n image ids or caption ids.
    """
    values = ranks.cpu().numpy().astype(np.int32)
    return pd.DataFrame({"candidates": candidates, "direction": direction, "query": queries, "rank": values})


class Results(NamedTuple):
    """What the protocols find: metrics, by protocol; the ranks that they are computed from, see `rank_rows`; and pairs
    of a caption and its first negative by an operator: image, `right`, whether the model knows all words that the
    negative inserts (`known`), and operator.
    """

    metrics: dict[str, Any]
    ranks: pd.DataFrame
    pairs: pd.DataFrame


NO_PAIRS = pd.DataFrame(
    {
        "image": pd.Series(dtype=str),
        "right": pd.Series(dtype=bool),
        "known": pd.Series(dtype=bool),
        "operator": pd.Series(dtype=str),
    }
)


def run_protocols(split: EmbeddedSplit, attacks: Attacks) -> Results:
    """Metrics by protocol, and what they are computed from; without negatives, only plain retrieval."""
    plain = split.rank()
    metrics, rows = plain_retrieval(split, plain, "plain")
    if not len(split.corpus.operator):
        return Results(metrics, rows, NO_PAIRS)
    tables = [rows]
    pairs = [NO_PAIRS]
    own, outranking = score_negatives(split, attacks, plain.best)
    metrics |= {"vse-c": {}, "univse": {}, "pairwise": {}}
    for name, negatives in attacks.items():
        protocol, _, kind = name.partition(":")
        if not len(negatives):
            continue
        if protocol == "pairs":
            metrics["pairwise"][kind], rows = _pairwise(split, negatives, own)
            pairs.append(rows.assign(operator=kind))
        elif protocol == "plural":
            metrics["plural"], rows = _plural_split(split, negatives, own)
            tables.append(rows)
        else:
            ranks = (plain.images + outranking.get(name, 0)).cpu()
            if name not in outranking:
                ranks = ranks_with_own_negatives(plain, own, negatives, split.image_of_negative(negatives))
            tables.append(rank_rows(name, "i2t", split.image_ids, ranks))
            owners = split.corpus.negative_caption[negatives].unique()
            counts: dict[str, float] = {"negatives": len(negatives), "captions_with_negatives": len(owners)}
            counts["negatives_a_caption"] = len(negatives) / len(split.captions)
            metrics[protocol][kind] = {**_recalls_with_intervals(ranks, split.seed), **counts}
    return Results(metrics, pd.concat(tables, ignore_index=True), pd.concat(pairs, ignore_index=True))


def plain_retrieval(split: EmbeddedSplit, plain: Ranks, candidates: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """Metrics of retrieval without attack, with intervals, and its ranks; for a large split also means over folds."""
    of_images = retrieval.count_hits(plain.images, torch.arange(len(split.images)), len(split.images))
    of_captions = retrieval.count_hits(plain.captions, split.owner, len(split.images))
    samples = np.concatenate([bootstrap(*hits, split.seed) for hits in (of_images, of_captions)], 1)
    names = [f"{direction} R@{k}" for direction in ("i2t", "t2i") for k in retrieval.TOP]
    bounds = map(percentile_interval, [*samples.T, samples.sum(1)])
    metrics: dict[str, Any] = {"retrieval": retrieval.retrieval_metrics(plain)}
    metrics["intervals"] = {name: list(both) for name, both in zip([*names, "rsum"], bounds, strict=True)}
    if len(split.images) >= FOLDED_FROM:
        owner = split.owner.to(split.images.device)
        parts = split.images, split.vectors, owner
        metrics["folds of 1000"] = retrieval.mean_over_folds(*parts, FOLD, split.model.similarity)
    rows = [rank_rows(candidates, "i2t", split.image_ids, plain.images)]
    return metrics, pd.concat([*rows, rank_rows(candidates, "t2i", split.caption_ids, plain.captions)])


def _recalls_with_intervals(ranks: Tensor, seed: int) -> dict[str, Any]:
    found = ratios_with_intervals(*retrieval.count_hits(ranks, torch.arange(len(ranks)), len(ranks)), seed)
    bounds = {f"R@{k}": list(one.interval) for k, one in zip(retrieval.TOP, found, strict=True)}
    return {**retrieval.recall_metrics(ranks), "intervals": bounds}


def _plural_split(split: EmbeddedSplit, numeral: Tensor, own: Tensor) -> tuple[dict[str, Any], pd.DataFrame]:
    """VSE-C's Table 4: all captions of the images with a caption that counts more than one, plain and attacked.

    A caption counts more than one if one of its numeral negatives replaces a number above one. Only those attack,
    numeral: (P,), that put in such a number, too ("3 dogs" -> "5 dogs"), so that singular and plural tell nothing. own:
    (M,) score of every negative with its image.
    """
    counting = torch.zeros(split.corpus.texts.captions, dtype=torch.bool)
    counting[split.corpus.negative_caption[split.corpus.was_plural]] = True
    inside = torch.isin(split.owner, split.owner[counting[split.captions]])
    image, owner = split.owner[inside].unique(return_inverse=True)
    images = split.images[image.to(split.images.device)]
    vectors = split.vectors[inside.to(split.images.device)]
    places = split.captions[inside], split.image[image], owner
    part = EmbeddedSplit(split.model, split.corpus, *places, images, vectors, split.seed)
    plain = part.rank()
    attacked = ranks_with_own_negatives(plain, own, numeral, part.image_of_negative(numeral))
    counts = {"images": len(image), "captions": int(inside.sum()), "negatives": len(numeral)}
    recalls = {"plain": plain.images.cpu(), "numeral": attacked}
    metrics = {**counts, **{name: _recalls_with_intervals(ranks, split.seed) for name, ranks in recalls.items()}}
    both = (("plural", plain.images), ("plural:numeral", attacked))
    return metrics, pd.concat([rank_rows(name, "i2t", part.image_ids, ranks) for name, ranks in both])


def _pairwise(split: EmbeddedSplit, negatives: Tensor, own: Tensor) -> tuple[dict[str, Any], pd.DataFrame]:
    """How often, in %, a caption scores higher with its image than its negative does; a tie counts as a failure. With
    `known`, the same of the negatives whose words the model knows, if there are any; and the pairs, see `Results`.
    """
    true = torch.zeros(split.corpus.texts.captions)
    owner = split.owner.to(split.images.device)
    true[split.captions] = retrieval.own_scores(split.images, split.vectors, owner, split.model.similarity).cpu()
    right = true[split.corpus.negative_caption[negatives]] > own[negatives]
    image = split.image_of_negative(negatives)
    known = split.corpus.known[negatives]
    found: dict[str, Any] = _shares(split, right, image)
    if known.any():
        found["known"] = _shares(split, right[known], image[known])
    image_ids = [split.image_ids[n] for n in image.tolist()]
    return found, pd.DataFrame({"image": image_ids, "right": right.numpy(), "known": known.numpy()})


def _shares(split: EmbeddedSplit, right: Tensor, image: Tensor) -> dict[str, Any]:
    """The share in % of pairs (P,) that are right, with its interval over their images (P,)."""
    counts, sizes = (
        np.bincount(image.numpy(), weights, len(split.images))[:, None] for weights in (right.numpy(), None)
    )
    (share,) = ratios_with_intervals(counts, sizes, split.seed)
    return {"pairs": len(right), "accuracy": share.value, "interval": list(share.interval)}
