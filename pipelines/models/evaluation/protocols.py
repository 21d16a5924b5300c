"""The protocols of an evaluation: plain retrieval, attacks, the plural split, and pairs of caption and negative.

Attacks: negatives are added to the candidate captions, and the best true caption of each image is ranked again.

VSE-C (Shi et al. 2018, Tables 2 to 4): the candidates of an image are all captions and the negatives of its own ones.
UniVSE (Wu et al. 2019, Table 2): all images share their candidates, the captions and 5 negatives of each; here up to 5,
as some captions have fewer.

The components of negatives, parsed from their texts as those of captions are, and cached in the run's folder.

A model must not know more of a negative than of a caption, of which it sees only the text. So the edit that made the
negative is not used: the parser of the run's captions parses it, and makes the same kinds of mistakes as in captions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from ....augment.operators import OPERATORS, PRESETS, UNIFORM
from ...engine.manifest import read_manifest
from ...engine.tables import hash_table, read_table
from ..checkpoint import cached_arrays
from ..config import EvaluateConfig
from ..data import ComponentLists, Corpus, SceneGraphs, encode_components
from ..vocabulary import WordVocabulary
from .retrieval import (
    TIE,
    TOP,
    EmbeddedSplit,
    Ranks,
    bootstrap_intervals,
    count_hits,
    count_outranking,
    embed_in_batches,
    mean_over_folds,
    own_scores,
    rank,
    recall_metrics,
    retrieval_metrics,
)

VSE_C = (*PRESETS["vse-c"], *PRESETS["vse-c-paper"])
FAMILIES: Mapping[str, tuple[str, ...]] = {
    family: tuple(name for name in VSE_C if OPERATORS[name].family == family)
    for family in dict.fromkeys(OPERATORS[name].family for name in VSE_C)
}  # the operators of VSE-C's attacks, by family


class Attacks(NamedTuple):
    """The negatives (P,) of a split that each attack adds, as indices among the M negatives of the corpus.

    own: VSE-C's attacks, by family. plural: the attack of VSE-C's Table 4, under the name "numeral": negatives that
    replace a number above one by another number above one. shared: UniVSE's attacks, by operator. pairs: by operator,
    the first negative of each caption, for the pairwise comparison with it.
    """

    own: dict[str, Tensor]
    plural: dict[str, Tensor]
    shared: dict[str, Tensor]
    pairs: dict[str, Tensor]

    @property
    def negatives(self) -> Tensor:
        """The negatives of all attacks, each once, in ascending order."""
        return torch.cat([rows for attacks in self for rows in attacks.values()]).unique()


class NegativeScores(NamedTuple):
    """A model's scores of the negatives.

    own: (M,) similarity of each negative with the image of its caption; NaN for those of no attack. outranking: by
    shared attack, for each image (I,) the number of its negatives that score at least as high as the image's best
    caption.
    """

    own: Tensor
    outranking: Mapping[str, Tensor]


def choose_attacks(corpus: Corpus, captions: Tensor, config: EvaluateConfig) -> Attacks:
    """The negatives of captions (n,) that the attacks use; config: the maximum number per caption in each."""

    def first(operators: Sequence[str], limit: int) -> Tensor:
        return first_negatives(corpus, captions, corpus.made_by(operators), limit)

    univse = {name: (name, f"{UNIFORM}{name}") for name in PRESETS["univse"]}
    plural = corpus.was_plural & corpus.is_plural
    return Attacks(
        {name: first(made, config.per_family) for name, made in FAMILIES.items()},
        {"numeral": first_negatives(corpus, captions, plural, config.per_family)},
        {name: first(made, config.per_attack) for name, made in univse.items() if set(made) & set(corpus.operators)},
        {name: first([name], 1) for name in corpus.operators},
    )


def complete_captions(corpus: Corpus, captions: Tensor, image: Tensor, least: int) -> Tensor:
    """Those of the captions (n,) whose image's captions all have `least` negatives of each family in FAMILIES.

    image: (C,) the image of every caption of the corpus. Raises ValueError if no image has such captions only.
    """
    few = torch.zeros(corpus.captions, dtype=torch.bool)
    for made in FAMILIES.values():
        owners = corpus.negative_caption[corpus.made_by(made)]
        few |= torch.bincount(owners, minlength=corpus.captions) < least
    kept = captions[~torch.isin(image[captions], image[captions[few[captions]]])]
    if not len(kept):
        raise ValueError(
            f"complete must leave an image: none has captions with {least} negatives of {', '.join(FAMILIES)} each"
        )
    return kept


def first_negatives(corpus: Corpus, captions: Tensor, wanted: Tensor, limit: int) -> Tensor:
    """The indices (P,) of up to `limit` negatives per caption (n,), of those that are `wanted` (M,), a mask.

    The first negative of each operator comes before the second ones, and so on.
    """
    chosen = torch.zeros(corpus.captions, dtype=torch.bool)
    chosen[captions] = True
    rows = (wanted & chosen[corpus.negative_caption]).nonzero()[:, 0]
    key = (corpus.draw[rows].long() * (len(corpus.operators) + 1)) + corpus.operator[rows]
    rows = rows[key.argsort(stable=True)]
    rows = rows[corpus.negative_caption[rows].argsort(stable=True)]
    owner = corpus.negative_caption[rows]
    counts = torch.bincount(owner, minlength=corpus.captions)
    position = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[owner]
    return rows[position < limit]


def score_negatives(split: EmbeddedSplit, attacks: Attacks, best: Tensor) -> NegativeScores:
    """Embed every negative of the attacks once, and keep only its scores.

    best: (I,) the score of each image's best caption.
    """
    corpus, images, similarity = split.corpus, split.images, split.model.similarity
    shared = torch.zeros(
        len(corpus.operator), dtype=torch.int64
    )  # bit k is set for negatives of the k-th shared attack
    for bit, rows in enumerate(attacks.shared.values()):
        shared[rows] |= 1 << bit
    negatives = attacks.negatives
    image_of = split.image_of_negative(negatives)
    own = torch.full((len(corpus.operator),), torch.nan)
    outranking = {name: torch.zeros(len(images), dtype=torch.long, device=images.device) for name in attacks.shared}
    for places, vectors in embed_in_batches(split.model.sentences, split.texts, corpus.captions + negatives):
        rows = negatives[places]
        own[rows] = similarity.pairs(images[image_of[places].to(images.device)], vectors).cpu()
        for bit, name in enumerate(attacks.shared):
            inside = (shared[rows] >> bit & 1).bool().to(vectors.device)
            outranking[name] += count_outranking(images, best, vectors[inside], similarity)
    return NegativeScores(own, outranking)


def ranks_with_own_negatives(ranks: Ranks, own: Tensor, negatives: Tensor, owner: Tensor) -> Tensor:
    """The rank (I,), from 1, of each image's best caption when the image's own negatives join its candidates.

    ranks: without these negatives. own: (M,) score of every negative with the image of its caption. negatives: (P,)
    indices of those that join. owner: (P,) the image of each.
    """
    outranks = (own[negatives] > ranks.best.cpu()[owner] - TIE).long()
    return ranks.images.cpu() + torch.zeros(len(ranks.images), dtype=torch.long).index_add(0, owner, outranks)


AT_ONCE = 1 << 14  # texts parsed at a time
LAYOUT = 1  # version of the arrays in the cache


def with_negatives(
    run: Path,
    graphs: SceneGraphs,
    negatives: Tensor,
    corpus: Corpus,
    vocabulary: WordVocabulary,
    spacy_model: str | None = None,
) -> SceneGraphs:
    """The components of a run's C captions followed by those of its M negatives; only `negatives` (P,) have any.

    graphs: of the captions. spacy_model: the pipeline that parsed the run, needed if the run's manifest names none that
    can be loaded; None: the one it names. Raises ValueError for a pipeline that is not installed, or a damaged cache.
    """
    from safetensors.torch import save

    if not len(negatives):
        return graphs
    settings = parser_settings(run, spacy_model)
    tables = [hash_table(run, "negatives"), hash_table(run, "components")]
    identity = [LAYOUT, vocabulary.sha256, *tables, settings, hashlib.sha256(negatives.numpy().tobytes()).hexdigest()]

    def parsed() -> bytes:
        every = pa.chunked_array([table["text"].combine_chunks() for table in read_table(run, "negatives", ["text"])])
        made = parse_graphs(every.take(pa.array(negatives.numpy())).combine_chunks(), vocabulary, settings)
        parts = {kind: lists._asdict() for kind, lists in made._asdict().items()}
        return save({f"{kind}.{part}": tensor for kind, its in parts.items() for part, tensor in its.items()})

    found, _ = cached_arrays(run, "components-", identity, parsed)
    lists = []
    for kind, captions in graphs._asdict().items():
        new = ComponentLists(found[f"{kind}.words"], found[f"{kind}.offsets"])
        lists.append(_append(captions, new, negatives, len(corpus.operator)))
    return SceneGraphs(*lists)


def parser_settings(run: Path, spacy_model: str | None = None) -> dict[str, Any]:
    """How a run's captions were parsed, for `parse_graphs`; spacy_model: another pipeline, None for the run's own."""
    return {
        "spacy_model": spacy_model or _setting(run, "parses", "spacy_model"),
        "parser": _setting(run, "parses", "parser"),
        "simple": bool(_setting(run, "components", "simple")),
    }


def _setting(run: Path, table: str, name: str) -> Any:
    """A setting of the stage that wrote a table; None if the table has no manifest."""
    manifest = read_manifest(run / table)
    return None if manifest is None else manifest.identity.config.get(name)


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


def _append(captions: ComponentLists, found: ComponentLists, negatives: Tensor, total: int) -> ComponentLists:
    """The captions' lists, then one per negative (`total`): from `found` for `negatives` (P,), empty for others."""
    sizes = torch.zeros(total, dtype=torch.long)
    sizes[negatives] = found.offsets.diff()
    words = torch.cat([captions.words, found.words.to(captions.words.device)])
    return ComponentLists(words, torch.cat([captions.offsets, captions.offsets[-1] + sizes.cumsum(0)]))


FOLD, FOLDED_FROM = 1000, 5000  # images per fold; folds are used for splits of at least 5,000 images


class RankList(NamedTuple):
    """The ranks (n,) of the n queries of one retrieval, counted from 1.

    candidates: "plain", "plain:de" for captions of a further language, or the attack whose negatives are added, such as
    "vse-c:noun". direction: "i2t" (an image
    queries captions) or "t2i". queries: n image ids or caption ids.
    """

    candidates: str
    direction: str
    queries: list[str]
    ranks: Tensor


def run_protocols(split: EmbeddedSplit, attacks: Attacks) -> tuple[dict[str, Any], list[RankList]]:
    """Metrics by protocol, and the ranks they are computed from; without negatives, only plain retrieval."""
    plain = rank(split.images, split.vectors, split.owner.to(split.images.device), split.model.similarity)
    metrics, lists = _retrieval_metrics(split, plain), _rank_lists(split, plain, "plain")
    if not len(split.corpus.operator):
        return metrics, lists
    scores = score_negatives(split, attacks, plain.best)
    metrics["vse-c"], metrics["univse"] = {}, {}
    for name, rows in {"total": torch.cat(list(attacks.own.values())), **attacks.own}.items():
        if len(rows):
            ranks = ranks_with_own_negatives(plain, scores.own, rows, split.image_of_negative(rows))
            metrics["vse-c"][name] = _attack_metrics(ranks, rows, split)
            lists.append(RankList(f"vse-c:{name}", "i2t", split.image_ids, ranks))
    for name, rows in attacks.shared.items():
        if len(rows):
            ranks = (plain.images + scores.outranking[name]).cpu()
            metrics["univse"][name] = _attack_metrics(ranks, rows, split)
            lists.append(RankList(f"univse:{name}", "i2t", split.image_ids, ranks))
    if len(plural := attacks.plural["numeral"]):
        metrics["plural"], counted = _plural_split(split, plural, scores)
        lists += counted
    metrics["pairwise"] = {name: _pairwise(split, rows, scores) for name, rows in attacks.pairs.items() if len(rows)}
    return metrics, lists


def plain_retrieval(split: EmbeddedSplit, language: str) -> tuple[dict[str, Any], list[RankList]]:
    """Metrics of retrieval by the captions of a further language, and their ranks, with the candidates "plain:de"."""
    plain = rank(split.images, split.vectors, split.owner.to(split.images.device), split.model.similarity)
    return _retrieval_metrics(split, plain), _rank_lists(split, plain, f"plain:{language}")


def _rank_lists(split: EmbeddedSplit, plain: Ranks, candidates: str) -> list[RankList]:
    return [
        RankList(candidates, "i2t", split.image_ids, plain.images),
        RankList(candidates, "t2i", split.caption_ids, plain.captions),
    ]


def _retrieval_metrics(split: EmbeddedSplit, plain: Ranks) -> dict[str, Any]:
    """Metrics of retrieval without attack, with intervals; for a large split also their means over folds."""
    images = len(split.images)
    tables = [
        count_hits(plain.images.cpu(), torch.arange(images), images),
        count_hits(plain.captions.cpu(), split.owner, images),
    ]
    i2t, t2i, both = bootstrap_intervals(tables, split.seed)
    metrics: dict[str, Any] = {"retrieval": retrieval_metrics(plain)}
    metrics["intervals"] = {
        **{f"i2t R@{k}": list(bounds) for k, bounds in zip(TOP, i2t, strict=False)},
        **{f"t2i R@{k}": list(bounds) for k, bounds in zip(TOP, t2i, strict=False)},
        "rsum": list(both[0]),
    }
    if images >= FOLDED_FROM:
        owner = split.owner.to(split.images.device)
        metrics["folds of 1000"] = mean_over_folds(split.images, split.vectors, owner, FOLD, split.model.similarity)
    return metrics


def _recalls_with_intervals(ranks: Tensor, seed: int) -> dict[str, Any]:
    bounds = bootstrap_intervals([count_hits(ranks, torch.arange(len(ranks)), len(ranks))], seed)[0]
    intervals = {f"R@{k}": list(both) for k, both in zip(TOP, bounds, strict=False)}
    return {**recall_metrics(ranks), "intervals": intervals}


def _attack_metrics(ranks: Tensor, negatives: Tensor, split: EmbeddedSplit) -> dict[str, Any]:
    return {
        **_recalls_with_intervals(ranks, split.seed),
        "negatives": len(negatives),
        "captions_with_negatives": len(split.corpus.negative_caption[negatives].unique()),
        "negatives_a_caption": len(negatives) / len(split.captions),
    }


def _plural_split(
    split: EmbeddedSplit, numeral: Tensor, scores: NegativeScores
) -> tuple[dict[str, Any], list[RankList]]:
    """VSE-C's Table 4: all captions of the images with a caption that counts more than one, plain and attacked.

    A caption counts more than one if one of its numeral negatives replaces a number above one. numeral: (P,) the
    negatives of the split that replace such a number by another number above one ("3 dogs" -> "5 dogs"); only they
    attack, so that singular and plural forms tell nothing.
    """
    counting = torch.zeros(split.corpus.captions, dtype=torch.bool)
    counting[split.corpus.negative_caption[split.corpus.was_plural]] = True
    inside = torch.isin(split.owner, split.owner[counting[split.captions]])
    image, owner = split.owner[inside].unique(return_inverse=True)
    device = split.images.device
    plain = rank(
        split.images[image.to(device)], split.vectors[inside.to(device)], owner.to(device), split.model.similarity
    )
    index = torch.zeros(len(split.images), dtype=torch.long)
    index[image] = torch.arange(len(image))
    attacked = ranks_with_own_negatives(plain, scores.own, numeral, index[split.image_of_negative(numeral)])
    metrics = {
        "images": len(image),
        "captions": int(inside.sum()),
        "negatives": len(numeral),
        "plain": _recalls_with_intervals(plain.images.cpu(), split.seed),
        "numeral": _recalls_with_intervals(attacked, split.seed),
    }
    ids = [split.image_ids[n] for n in image.tolist()]
    return metrics, [RankList("plural", "i2t", ids, plain.images), RankList("plural:numeral", "i2t", ids, attacked)]


def _pairwise(split: EmbeddedSplit, negatives: Tensor, scores: NegativeScores) -> dict[str, Any]:
    """How often, in %, a caption scores higher with its image than its negative does; a tie counts as a failure."""
    true = torch.zeros(split.corpus.captions)
    owner = split.owner.to(split.images.device)
    true[split.captions] = own_scores(split.images, split.vectors, owner, split.model.similarity).cpu()
    right = (true[split.corpus.negative_caption[negatives]] > scores.own[negatives]).double()
    table = torch.zeros(len(split.images), 2, dtype=torch.double)
    table.index_add_(0, split.image_of_negative(negatives), torch.stack([right, torch.ones_like(right)], 1))
    interval = bootstrap_intervals([table], split.seed)[0][0]
    return {"pairs": len(negatives), "accuracy": 100.0 * right.mean().item(), "interval": list(interval)}
