"""The protocols of an evaluation: plain retrieval, attacks, the plural split, and pairs of caption and negative.

Attacks: negatives are added to the candidate captions, and the best true caption of each image is ranked again.

VSE-C (Shi et al. 2018, Tables 2 to 4): the candidates of an image are all captions and the negatives of its own ones.
UniVSE (Wu et al. 2019, Table 2): all images share their candidates, the captions and up to 5 negatives of each.

A model must see of a negative what it sees of a caption: only the text. So the components of a negative do not come
from the edit that made it: the parser of the run's captions parses it, with the same kinds of mistakes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from ....augment.operators import OPERATORS, PRESETS, UNIFORM
from ...engine.manifest import read_manifest
from ...engine.tables import hash_table, read_table
from ..checkpoint import ArrayWriter, mapped_arrays
from ..config import EvaluateConfig
from ..data import ComponentLists, Corpus, SceneGraphs, encode_components
from ..figures import bootstrap, percentile_interval, ratios_with_intervals
from ..ranking import count_outranking, outranks
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
Metrics = dict[str, Any]  # plain JSON: numbers by name, maybe several levels deep


def choose_attacks(corpus: Corpus, captions: Tensor, config: EvaluateConfig) -> dict[str, Tensor]:
    """The negatives of captions (n,) that each attack uses, by the name of the attack, see `Attacks`.

    config: how many negatives per caption an attack has at most.

    Only negatives whose words the model knows attack: one that it reads with <unk> can be told from a caption without
    the image. `pairs:…` have all negatives; `_pair_metrics` has a figure of its own for those of known words.
    """

    known = corpus.known  # (M,) bool: whether the model knows every word that a negative inserts

    def first_of(operators: Sequence[str], limit: int, eligible: Tensor) -> Tensor:
        """The first few negatives of each caption by some operators; eligible: (M,) bool, those to choose from."""
        return first_negatives(corpus, captions, corpus.made_by(operators) & eligible, limit)

    by_family = {f"vse-c:{name}": first_of(operators, config.per_family, known) for name, operators in FAMILIES.items()}
    attacks = {"vse-c:total": torch.cat([*by_family.values()]), **by_family}
    for name in PRESETS["univse"]:
        operators = (name, f"{UNIFORM}{name}")
        if not set(operators).isdisjoint(corpus.operators):
            attacks[f"univse:{name}"] = first_of(operators, config.per_operator, known)
    above_one = corpus.was_plural & corpus.is_plural & known
    attacks["plural:numeral"] = first_negatives(corpus, captions, above_one, config.per_family)
    for name in corpus.operators:
        attacks[f"pairs:{name}"] = first_of([name], 1, torch.ones_like(known))
    return attacks


def complete_captions(corpus: Corpus, captions: Tensor, least: int) -> Tensor:
    """Captions of images whose captions all have `least` negatives or more of each of FAMILIES. ValueError if none."""
    image = corpus.captions.image
    has_too_few = torch.zeros(corpus.texts.captions, dtype=torch.bool)
    for operators in FAMILIES.values():
        owners = corpus.negative_caption[corpus.made_by(operators) & corpus.known]
        # One caption with too few excludes its image, as all captions of an image are candidates.
        has_too_few |= torch.bincount(owners, minlength=corpus.texts.captions) < least
    incomplete_images = image[captions[has_too_few[captions]]]
    complete = captions[~torch.isin(image[captions], incomplete_images)]
    if not len(complete):
        rule = f"{least} negatives of {', '.join(FAMILIES)} each"
        raise ValueError(f"complete must leave an image: none has captions with {rule}")
    return complete


def first_negatives(corpus: Corpus, captions: Tensor, wanted: Tensor, limit: int) -> Tensor:
    """The indices of P negatives: of each of some captions, up to `limit` of those that are wanted.

    The result is sorted by caption. Of a caption, the first negative of each operator comes before the second ones.

    Args:
        corpus: of C captions and M negatives.
        captions: (n,), indices.
        wanted: (M,) bool.
        limit: negatives of a caption, at most.
    """
    is_chosen = torch.zeros(corpus.texts.captions, dtype=torch.bool)
    is_chosen[captions] = True
    rows = (wanted & is_chosen[corpus.negative_caption]).nonzero()[:, 0]
    columns = {"caption": corpus.negative_caption, "draw": corpus.draw, "operator": corpus.operator}
    table = pd.DataFrame({name: column[rows].numpy() for name, column in columns.items()}, index=rows.numpy())
    first = table.sort_values(["caption", "draw", "operator"], kind="stable").groupby("caption").head(limit)
    return torch.from_numpy(first.index.to_numpy(np.int64, copy=True))


class ScoredNegatives(NamedTuple):
    """What is kept of the scores of negatives.

    own: (M,) the similarity of each negative with the image of its caption, NaN for those of no attack. outranking: for
    each attack of UniVSE, (I,): how many of the attack's negatives outrank an image's best caption.
    """

    own: Tensor
    outranking: dict[str, Tensor]


def score_negatives(split: EmbeddedSplit, attacks: Attacks, best: Tensor) -> ScoredNegatives:
    """The scores of all negatives of the attacks with their images; a negative of several attacks is embedded once.

    Args:
        split: the images, and the model that embeds.
        attacks: the negatives of each.
        best: (I,) the score of each image's best caption, which the shared negatives of UniVSE's attacks may outrank.
    """
    corpus = split.corpus
    images = split.image_vectors
    similarity = split.model.similarity
    negatives = torch.cat([*attacks.values()]).unique()
    image_of_negative = split.image_of_negative(negatives)

    own = torch.full((len(corpus.operator),), torch.nan)
    outranking: dict[str, Tensor] = {}  # only for attacks whose negatives all images share
    is_shared: dict[str, Tensor] = {}  # by such an attack, (M,) bool: the negatives that belong to it
    for name, rows in attacks.items():
        if name.startswith("univse:"):
            outranking[name] = torch.zeros_like(best, dtype=torch.long)
            is_shared[name] = torch.zeros(len(corpus.operator), dtype=torch.bool)
            is_shared[name][rows] = True
    # Of the corpus's texts the captions come first, then the negatives.
    texts = corpus.texts.captions + negatives
    for places, vectors in retrieval.embed_in_batches(split.model.sentences, corpus.texts, texts):
        rows = negatives[places]
        own[rows] = similarity.pairs(images[image_of_negative[places].to(images.device)], vectors).cpu()
        for name, counts in outranking.items():
            shared = vectors[is_shared[name][rows].to(vectors.device)]
            counts += count_outranking(shared, images, best, similarity.by_text)
    return ScoredNegatives(own, outranking)


def ranks_with_own_negatives(ranks: Ranks, own_scores: Tensor, negatives: Tensor, image: Tensor) -> Tensor:
    """The rank (I,), from 1, of each image's best caption when the image's own negatives join its candidates.

    Args:
        ranks: without these negatives.
        own_scores: (M,) of every negative with the image of its caption.
        negatives: (P,) indices of those that join.
        image: (P,) the image of the caption of each.
    """
    is_above = outranks(own_scores[negatives], ranks.best.cpu()[image])
    added = torch.zeros(len(ranks.images), dtype=torch.long).index_add(0, image, is_above.long())
    return ranks.images.cpu() + added


AT_ONCE = 1 << 14  # texts parsed at a time
LAYOUT = 2  # version of the arrays in the cache


def graphs_with_negatives(
    run: Path, graphs: SceneGraphs, negatives: Tensor, corpus: Corpus, spacy_model: str | None = None
) -> SceneGraphs:
    """The components of a run's C captions followed by those of its M negatives; only some negatives have any.

    Args:
        run: whose parser is used.
        graphs: of the captions.
        negatives: (P,) the numbers, among the M, of those that are parsed: the others get no components.
        corpus: of the run.
        spacy_model: the pipeline that parsed the run, needed if the run's manifest names none that can be loaded; None:
            the one it names.

    Raises:
        ValueError: the pipeline is not installed, or the cache is damaged.
    """
    if not len(negatives):
        return graphs
    settings = parser_settings(run, spacy_model)
    tables = [hash_table(run, "negatives"), hash_table(run, "components")]
    rows = corpus.row[negatives].numpy()  # their rows in the table `negatives`
    # The cache has a folder for each choice of negatives, as evaluations with other settings parse others.
    rows_sha256 = hashlib.sha256(rows.tobytes()).hexdigest()
    identity = [LAYOUT, corpus.vocabulary.sha256, *tables, settings, rows_sha256]

    def write(out: ArrayWriter) -> None:
        """Parse the negatives, and write the arrays of their graphs, named `kind.part`, such as `objects.words`."""
        # One array of the texts of all shards, as `rows` are numbers in the whole table.
        texts = pa.chunked_array([table["text"].combine_chunks() for table in read_table(run, "negatives", ["text"])])
        parsed_graphs = parse_graphs(texts.take(pa.array(rows)).combine_chunks(), corpus.vocabulary, settings)
        for kind, components in parsed_graphs._asdict().items():
            for part, tensor in components._asdict().items():
                out.append(**{f"{kind}.{part}": tensor.numpy()})

    cached = mapped_arrays(run, "components-", identity, write).tensors
    joined = []
    for kind, of_captions in graphs._asdict().items():
        # `cached` has the components of the P chosen negatives alone, one negative after another.
        sizes = torch.zeros(len(corpus.operator), dtype=torch.long)  # (M,) how many components each negative gets
        sizes[negatives] = cached[f"{kind}.offsets"].diff()
        # Words are on the device of the model, offsets always on the CPU.
        words = torch.cat([of_captions.words, cached[f"{kind}.words"].to(of_captions.words.device)])
        offsets = torch.cat([of_captions.offsets, of_captions.offsets[-1] + sizes.cumsum(0)])
        joined.append(ComponentLists(words, offsets))
    return SceneGraphs(*joined)


class ParserSettings(TypedDict):
    """How captions are parsed. spacy_model: the pipeline. parser: its version. simple: as by `--simple`."""

    spacy_model: str | None
    parser: str | None
    simple: bool


def parser_settings(run: Path, spacy_model: str | None = None) -> ParserSettings:
    """How a run's captions were parsed, for `parse_graphs`; spacy_model: another pipeline, None for the run's own."""
    configs: dict[str, Mapping[str, Any]] = {}
    for table in ("parses", "components"):
        manifest = read_manifest(run / table)
        configs[table] = {} if manifest is None else manifest.identity.config
    return {
        "spacy_model": spacy_model or configs["parses"].get("spacy_model"),
        "parser": configs["parses"].get("parser"),
        "simple": bool(configs["components"].get("simple")),
    }


def parse_graphs(texts: pa.Array, vocabulary: WordVocabulary, settings: ParserSettings) -> SceneGraphs:
    """The components of texts, parsed as the captions of a run are."""
    from ....augment.caption import from_parses
    from ....augment.components.vocabulary import components_table
    from ....augment.language.parse import parse_table
    from ....augment.scene_graph import scene_graph

    tables = []
    for start in range(0, len(texts), AT_ONCE):
        part = texts.slice(start, AT_ONCE)
        ids = pa.array([str(n) for n in range(len(part))])  # the parser asks for ids, and nobody reads them
        empty = pa.array([""] * len(part))
        captions = pa.table([ids, ids, empty, empty, part], ["caption_id", "image_id", "split", "origin", "text"])
        parses = parse_table(captions, settings["spacy_model"])
        graphs = [scene_graph(caption, settings["simple"]) for caption in from_parses(parses)]
        tables.append(components_table(parses, graphs))
    return encode_components(pa.concat_tables(tables), vocabulary, torch.device("cpu"))


FOLD = 1000
FOLDED_FROM = 5000  # images per fold; folds are used for splits of at least 5,000 images


def rank_rows(candidates: str, direction: str, queries: list[str], ranks: Tensor) -> pd.DataFrame:
    """The ranks (n,) of the n queries of one retrieval, counted from 1, as rows of the table `ranks`.

    Args:
        candidates: "plain", "plain:de" for captions of a further language, or the attack whose negatives are added,
            such as "vse-c:noun".
        direction: "i2t" (an image queries captions) or "t2i".
        queries: n image ids or caption ids.
        ranks: (n,).
    """
    values = ranks.cpu().numpy().astype(np.int32)
    return pd.DataFrame({"candidates": candidates, "direction": direction, "query": queries, "rank": values})


class ProtocolResult(NamedTuple):
    """The metrics of one protocol, and the ranks or pairs that they are computed from, see `Evaluation`."""

    metrics: Metrics
    rows: pd.DataFrame


NO_PAIRS = pd.DataFrame(columns=["image", "right", "known", "operator"]).astype({"right": bool, "known": bool})


class Evaluation(NamedTuple):
    """What the evaluation of a model finds.

    Attributes:
        metrics: by protocol, as in evaluation.json.
        ranks: that they are computed from, see `rank_rows`.
        pairs: of a caption and its first negative by an operator, a row each: the image, whether the caption scores
            higher (`right`), whether the model knows all words that the negative inserts (`known`), and the operator.
    """

    metrics: Metrics
    ranks: pd.DataFrame
    pairs: pd.DataFrame = NO_PAIRS


def run_protocols(split: EmbeddedSplit, attacks: Attacks) -> Evaluation:
    """Metrics by protocol, and what they are computed from; without negatives, only plain retrieval."""
    plain = split.rank()
    metrics, plain_rows = plain_retrieval(split, plain, "plain")
    if not len(split.corpus.operator):
        return Evaluation(metrics, plain_rows)
    ranks = [plain_rows]
    pairs = [NO_PAIRS]
    scores = score_negatives(split, attacks, plain.best)
    metrics |= {"vse-c": {}, "univse": {}, "pairwise": {}}
    for name, negatives in attacks.items():
        protocol, _, kind = name.partition(":")
        if not len(negatives):
            continue
        if protocol == "pairs":
            metrics["pairwise"][kind], rows = _pair_metrics(split, negatives, scores.own)
            pairs.append(rows.assign(operator=kind))
        elif protocol == "plural":
            metrics["plural"], rows = _plural_metrics(split, negatives, scores.own)
            ranks.append(rows)
        else:
            metrics[protocol][kind], rows = _attack_metrics(split, plain, name, negatives, scores)
            ranks.append(rows)
    return Evaluation(metrics, pd.concat(ranks, ignore_index=True), pd.concat(pairs, ignore_index=True))


def _attack_metrics(
    split: EmbeddedSplit, plain: Ranks, name: str, negatives: Tensor, scores: ScoredNegatives
) -> ProtocolResult:
    """The recalls of images when the negatives of an attack join the captions, and counts of these negatives.

    Args:
        split: the images and captions, embedded.
        plain: their ranks without the attack.
        name: of the attack.
        negatives: (P,) those of the attack.
        scores: of the negatives, with the images.
    """
    # Negatives that all images share have been counted in `score_negatives`; an image's own ones are counted here.
    if name in scores.outranking:
        ranks = (plain.images + scores.outranking[name]).cpu()
    else:
        ranks = ranks_with_own_negatives(plain, scores.own, negatives, split.image_of_negative(negatives))
    owners = split.corpus.negative_caption[negatives].unique()
    metrics = {
        **_recalls_with_intervals(ranks, split.seed),
        "negatives": len(negatives),
        "captions_with_negatives": len(owners),
        "negatives_a_caption": len(negatives) / len(split.captions),
    }
    return ProtocolResult(metrics, rank_rows(name, "i2t", split.image_ids, ranks))


def plain_retrieval(split: EmbeddedSplit, plain: Ranks, candidates: str) -> ProtocolResult:
    """Metrics of retrieval without attack, with intervals, and its ranks; for a large split also means over folds."""
    images = len(split.image_vectors)
    of_images = retrieval.count_hits(plain.images, torch.arange(images), images)
    of_captions = retrieval.count_hits(plain.captions, split.image_of_caption, images)
    # The bootstraps of both directions draw the same images, so that recalls of one sample may be added up to rsum.
    samples = np.concatenate([bootstrap(*hits, split.seed) for hits in (of_images, of_captions)], 1)
    names = [f"{direction} R@{k}" for direction in ("i2t", "t2i") for k in retrieval.TOP]
    intervals = {name: list(percentile_interval(sample)) for name, sample in zip(names, samples.T, strict=True)}
    intervals["rsum"] = list(percentile_interval(samples.sum(1)))
    metrics: Metrics = {"retrieval": retrieval.retrieval_metrics(plain), "intervals": intervals}
    if images >= FOLDED_FROM:
        images_of_captions = split.image_of_caption.to(split.image_vectors.device)
        metrics["folds of 1000"] = retrieval.mean_over_folds(
            split.image_vectors, split.caption_vectors, images_of_captions, FOLD, split.model.similarity
        )
    rows_of_images = rank_rows(candidates, "i2t", split.image_ids, plain.images)
    rows_of_captions = rank_rows(candidates, "t2i", split.caption_ids, plain.captions)
    return ProtocolResult(metrics, pd.concat([rows_of_images, rows_of_captions]))


def _recalls_with_intervals(ranks: Tensor, seed: int) -> Metrics:
    """The recalls of images, whose ranks (I,) are from 1, and their intervals."""
    recalls = ratios_with_intervals(*retrieval.count_hits(ranks, torch.arange(len(ranks)), len(ranks)), seed)
    bounds = {f"R@{k}": list(recall.interval) for k, recall in zip(retrieval.TOP, recalls, strict=True)}
    return {**retrieval.recall_metrics(ranks), "intervals": bounds}


def _plural_metrics(split: EmbeddedSplit, numeral: Tensor, own: Tensor) -> ProtocolResult:
    """VSE-C's Table 4: retrieval on the images with a caption that counts more than one thing, plain and attacked.

    A caption counts more than one if one of its numeral negatives replaces a number above one. Only the negatives that
    also insert a number above one attack ("3 dogs" -> "5 dogs"): the noun stays plural, and gives nothing away.

    Args:
        split: the whole split.
        numeral: (P,) the negatives that attack.
        own: (M,) score of every negative with its image.
    """
    counts_several = torch.zeros(split.corpus.texts.captions, dtype=torch.bool)  # (C,)
    counts_several[split.corpus.negative_caption[split.corpus.was_plural]] = True
    # All captions of such an image stay, also those that count nothing: they are true of it.
    inside = torch.isin(split.image_of_caption, split.image_of_caption[counts_several[split.captions]])
    images_of_part, image_of_caption = split.image_of_caption[inside].unique(return_inverse=True)
    part = EmbeddedSplit(
        model=split.model,
        corpus=split.corpus,
        captions=split.captions[inside],
        image_rows=split.image_rows[images_of_part],
        image_of_caption=image_of_caption,
        image_vectors=split.image_vectors[images_of_part.to(split.image_vectors.device)],
        caption_vectors=split.caption_vectors[inside.to(split.image_vectors.device)],
        seed=split.seed,
    )
    plain = part.rank()
    attacked = ranks_with_own_negatives(plain, own, numeral, part.image_of_negative(numeral))
    metrics = {
        "images": len(images_of_part),
        "captions": int(inside.sum()),
        "negatives": len(numeral),
        "plain": _recalls_with_intervals(plain.images.cpu(), split.seed),
        "numeral": _recalls_with_intervals(attacked, split.seed),
    }
    plain_rows = rank_rows("plural", "i2t", part.image_ids, plain.images)
    attacked_rows = rank_rows("plural:numeral", "i2t", part.image_ids, attacked)
    return ProtocolResult(metrics, pd.concat([plain_rows, attacked_rows]))


def _pair_metrics(split: EmbeddedSplit, negatives: Tensor, own: Tensor) -> ProtocolResult:
    """How often, in %, a caption scores higher with its image than its negative does; a tie counts as a failure.

    `known` has the same for the negatives whose words the model knows, if there are any.

    Args:
        split: of the captions.
        negatives: (P,) one of each pair.
        own: (M,) score of every negative with its image.
    """
    image_of_caption = split.image_of_caption.to(split.image_vectors.device)
    scores = retrieval.own_scores(split.image_vectors, split.caption_vectors, image_of_caption, split.model.similarity)
    score_of_caption = torch.zeros(split.corpus.texts.captions)  # (C,): of those in the split, with their images
    score_of_caption[split.captions] = scores.cpu()
    right = ~outranks(own[negatives], score_of_caption[split.corpus.negative_caption[negatives]])
    image = split.image_of_negative(negatives)
    known = split.corpus.known[negatives]
    metrics: Metrics = _share_of_right_pairs(split, right, image)
    if known.any():
        metrics["known"] = _share_of_right_pairs(split, right[known], image[known])
    image_ids = [split.image_ids[n] for n in image.tolist()]
    return ProtocolResult(metrics, pd.DataFrame({"image": image_ids, "right": right.numpy(), "known": known.numpy()}))


def _share_of_right_pairs(split: EmbeddedSplit, right: Tensor, image: Tensor) -> Metrics:
    """The share of pairs that are right, in %, with its interval over images.

    Args:
        split: of whose images the bootstrap draws.
        right: (P,) bool, whether the caption of a pair is above its negative.
        image: (P,) the image of each pair.
    """
    images = len(split.image_vectors)
    counts = np.bincount(image.numpy(), right.numpy(), images)[:, None]
    sizes = np.bincount(image.numpy(), minlength=images)[:, None]
    (share,) = ratios_with_intervals(counts, sizes, split.seed)
    return {"pairs": len(right), "accuracy": share.value, "interval": list(share.interval)}
