"""The evaluation of a model on a split of a run; the results as Markdown, JSON and Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from ....augment.reproducible import record_rng
from ....schemas.captions import LANGUAGE
from ....schemas.features import RANKS
from ...engine.lock import locked
from ...engine.shards import PARQUET
from ...engine.storage import write_atomically
from ...engine.tables import has_table
from .. import data
from ..checkpoint import JsonObject
from ..config import EvaluateConfig, LeftOutPart, TrainConfig
from ..data import Captions, Corpus
from ..device import choose_device
from ..encoders import EmbeddingModel
from ..evaluation import components
from ..evaluation.protocols import (
    Attacks,
    Evaluation,
    choose_attacks,
    complete_captions,
    graphs_with_negatives,
    plain_retrieval,
    run_protocols,
)
from ..evaluation.retrieval import EmbeddedSplit, embed_images, embed_split, embed_texts, rank
from ..features import ImageFeatures, read_features
from ..figures import format_interval, markdown_table, table_if_any, write_results
from ..mhad import MultiHeadAttention, head_cosines
from ..univse.metrics import alpha_curve, parsing_accuracy
from ..univse.model import UniVSE
from ..vocabulary import UNKNOWN_ID
from . import OBJECTIVES, load_model


def write_evaluation(evaluation: Evaluation, folder: Path) -> str:
    """Write evaluation.json, evaluation.md and ranks.parquet to a folder; returns the tables as Markdown."""
    text = to_markdown(evaluation.metrics)
    sink = io.BytesIO()
    columns = {name: evaluation.ranks[name].to_numpy() for name in RANKS.names}
    pq.write_table(pa.table(columns, RANKS), sink, **PARQUET)
    with locked(folder):
        write_atomically(folder / "ranks.parquet", sink.getvalue())
        return write_results(folder, "evaluation", evaluation.metrics, text)


def measure(model_folder: Path, run: Path, config: EvaluateConfig) -> Evaluation:
    """Compute all metrics of a model on a split of a run.

    They are those of `run_protocols`, what `_describe_evaluation` says of the model and the split and, if the model and
    the run have what they need: `languages` (plain retrieval in each further language), `heads` (mean cosines of
    MHA-D's heads), `unified`, `parsing` and `alpha` (UniVSE's Tables 3 and 4 and Figure 5).

    Raises FileNotFoundError or ValueError for a folder without a trained model; a run without the split, its captions,
    features of the model's size, or images as config.complete asks for; or config.components or config.alpha for a
    model other than UniVSE.
    """
    torch.set_num_threads(config.threads)
    negatives = data.Selection(splits=(config.split,))
    device = choose_device(config.device)
    loaded = load_with_corpus(model_folder, run, device, negatives, **config.changes)
    model = loaded.model
    _check_changes(model_folder, loaded, config)
    captions = loaded.corpus.captions
    captions_by_language = [_captions_to_evaluate(loaded.corpus, config, language) for language in captions.languages]
    chosen = captions_by_language[0]
    if config.complete:
        chosen = complete_captions(loaded.corpus, chosen, config.complete)
    attacks = choose_attacks(loaded.corpus, chosen, config)
    corpus = loaded.corpus
    if OBJECTIVES[loaded.config.model].needs_components:
        corpus = corpus.with_graphs(_read_scene_graphs(run, corpus, attacks, config))

    split = embed_split(model, corpus, chosen, config.seed)
    results = run_protocols(split, attacks)
    metrics = results.metrics
    tables = [results.ranks]
    # attacks are of the first language only: negatives are English
    metrics["languages"] = {}
    vectors = {"images": split.image_vectors, captions.languages[0]: split.caption_vectors}
    for number, language in enumerate(captions.languages[1:], 1):
        further = embed_split(model, corpus, captions_by_language[number], config.seed)
        vectors[language] = further.caption_vectors
        retrieval, ranks = plain_retrieval(further, further.rank(number), f"plain:{language}")
        counts = {"images": len(further.image_vectors), "captions": len(further.captions)}
        metrics["languages"][language] = {**counts, **retrieval}
        tables.append(ranks)
    if isinstance(model, MultiHeadAttention) and model.head_count > 1:
        cosines = {name: head_cosines(model.heads(joined)) for name, joined in vectors.items()}
        metrics["heads"] = {name: values.mean().item() for name, values in cosines.items()}
    metrics |= _metrics_with_components(run, model, split, attacks, config.instances)
    about = _describe_evaluation(loaded, chosen, len(split.image_vectors), config.split)
    return Evaluation({**about, **metrics}, pd.concat(tables, ignore_index=True), results.pairs)


def _check_changes(folder: Path, loaded: LoadedModel, config: EvaluateConfig) -> None:
    """Raise ValueError if the config has settings that are not for this model."""
    trained = loaded.config
    if config.drop_components and not OBJECTIVES[trained.model].needs_components:
        raise ValueError(f"drop_components can only be set for a univse model, {folder} is: {trained.model}")
    if config.alpha is not None and isinstance(loaded.model, UniVSE) and loaded.model.learns_alpha:
        raise ValueError(f"alpha cannot be set, as {folder} has learned it: {loaded.model.alpha_value:.2f}")


def _captions_to_evaluate(corpus: Corpus, config: EvaluateConfig, language: str) -> Tensor:
    """The captions (n,) in a language that the config chooses, as indices into the corpus."""
    return corpus.captions.to_evaluate(
        config.split, corpus.features.available, config.limit, config.captions_per_image, language
    )


def _read_scene_graphs(run: Path, corpus: Corpus, attacks: Attacks, config: EvaluateConfig) -> data.SceneGraphs:
    """The scene graphs of a run's captions and of the negatives that attack, less what config.drop_components drops."""
    graphs = data.read_graphs(run, corpus.captions, corpus.vocabulary, corpus.device)
    negatives = torch.cat([*attacks.values()]).unique()
    # a negative's components are parsed from its text, not taken from the edit that made it
    graphs = graphs_with_negatives(run, graphs, negatives, corpus, config.spacy_model)
    if config.drop_components:
        every_text = torch.arange(len(graphs.pairs.offsets) - 1)
        graphs = graphs.thinned(every_text, config.drop_components, config.seed)
    return graphs


COMPONENT_TABLES = ("components", "component_vocabulary", "parses")


def _metrics_with_components(
    run: Path, model: EmbeddingModel, split: EmbeddedSplit, attacks: Attacks, instances: Path | None
) -> JsonObject:
    """Metrics with components of captions, such as the object "dog" or the relation "dog running on grass".

    `unified`: retrieval of images by components as queries (UniVSE's Table 3). `parsing`: how often the image tells to
    which noun of its caption an attribute or relation belongs (Table 4). For UniVSE also `alpha` (Figure 5).

    Args:
        run: the run; without tables of components, nothing is measured.
        model: to evaluate.
        split: its vectors of the captions and images; of another language than English, nothing is measured.
        attacks: the negatives that attack captions while α is varied.
        instances: COCO's annotations of boxes, whose categories become queries, too; None: none.
    """
    corpus = split.corpus
    # components are parsed from English
    if corpus.captions.languages[0] != LANGUAGE or not all(has_table(run, name) for name in COMPONENT_TABLES):
        return {}
    rows = data.read_caption_rows(run, "components", split.caption_ids)
    graphs = rows.to_pylist()
    parses = data.read_caption_rows(run, "parses", split.caption_ids)
    written_relations = components.written_forms(rows, parses)  # "run on" -> "running on"
    frequent = data.read_whole_table(run, "component_vocabulary")
    image_of_caption = split.image_of_caption.tolist()
    queries = components.frequent_queries(rows, frequent, image_of_caption, len(split.image_vectors), written_relations)
    if instances:
        files = data.image_files(run)
        split_files = [files[name] for name in split.image_ids]
        queries[components.DETECTED] = components.detected_queries(instances, split_files)
    words = corpus.vocabulary

    def as_sentences(phrases: Sequence[data.QueryPhrase]) -> Tensor:
        """The vectors (Q, d) of phrases that are read as sentences, which every model can."""
        texts = words.encode([phrase.text for phrase in phrases])
        return embed_texts(model.plain_sentences, texts, corpus.device)

    retrieve = partial(components.unified_retrieval, images=split.image_vectors, similarity=model.similarity)
    if isinstance(model, UniVSE):
        unified = retrieve(queries, partial(model.queries, words))
        unified |= retrieve({f"{kind}, as a sentence": queries[kind] for kind in ("object", "attribute")}, as_sentences)
        alpha = alpha_curve(model, split, attacks)
        return {"unified": unified, "alpha": alpha, "parsing": parsing_accuracy(model, split, graphs)}

    names = set(data.component_names(run))

    def is_known(name: str) -> bool:
        """Whether UniVSE, trained on the same captions, knows a word: all models are asked the same questions."""
        return name in names or data.component_ids(words, [name])[0] != UNKNOWN_ID

    parsing = components.phrase_parsing(as_sentences, graphs, split, model.similarity, written_relations, is_known)
    return {"unified": retrieve(queries, as_sentences), "parsing": parsing}


def _describe_evaluation(loaded: LoadedModel, chosen: Tensor, images: int, split: str) -> JsonObject:
    """What an evaluation says of the model, and of the captions and images that it was measured on.

    Args:
        loaded: the model and its corpus.
        chosen: (n,) the captions that were measured on.
        images: how many images these have.
        split: its name.
    """
    corpus = loaded.corpus
    captions = corpus.captions
    trained = loaded.config
    without_features = ~corpus.features.available[captions.image[captions.of_split(split)]]
    about: JsonObject = {
        "model": trained.model,
        "language": captions.languages[0],
        "negative_families": list(trained.trained_families),
    }
    if isinstance(loaded.model, UniVSE):
        about["caption"] = {"components": loaded.model.components, "alpha": loaded.model.alpha_value}
    return {
        **about,
        "trained_with_seed": trained.seed,
        "split": split,
        "images": images,
        "captions": len(chosen),
        "images_without_features": int(without_features.sum()),
        "inserting": {name: counts._asdict() for name, counts in corpus.unknown_words.items()},
    }


class LoadedModel(NamedTuple):
    """A trained model, the config of its training, and the corpus to measure it on."""

    model: EmbeddingModel
    config: TrainConfig
    corpus: Corpus


def load_with_corpus(
    folder: Path, run: Path, device: torch.device, negatives: data.Selection | None = None, **changes: object
) -> LoadedModel:
    """A trained model, and the corpus that it is evaluated on.

    Args:
        folder: of the model.
        run: to read the corpus from.
        device: for both.
        negatives: which ones the corpus has; None: none.
        changes: see `load_model`.

    Raises:
        FileNotFoundError: there is no model, or the run lacks captions or features.
        ValueError: a file is damaged, or the run's languages, its features or the change do not fit the model.
    """
    trained = load_model(folder, device, **changes)
    captions = data.read_captions(run, languages=trained.config.languages)
    features = features_for(trained.model, run, captions.image_ids, trained.config.table)
    corpus = data.encode_run(run, captions, trained.vocabularies, features, device, negatives)
    return LoadedModel(trained.model, trained.config, corpus)


def features_for(model: EmbeddingModel, run: Path, image_ids: Sequence[str], table: str) -> ImageFeatures:
    """The features of images for a model. Raises FileNotFoundError without them, ValueError for another size."""
    features = read_features(run, image_ids, table)
    size = features.values.shape[-1]
    if size != model.feature_size:
        raise ValueError(f"features of {run} must have {model.feature_size} numbers for this model, have {size}")
    return features


def in_left_out_part(captions: Captions, rows: Tensor, left_out: LeftOutPart) -> Tensor:
    """Which of the captions `rows` (n,) are of images in a part, (n,) bool; the id of an image decides on its part."""
    inside = []
    for image in captions.image_ids:
        inside.append(int(record_rng(0, "part", image).random() * left_out.parts) == left_out.part)
    return torch.tensor(inside, dtype=torch.bool)[captions.image[rows]]


def accepted_by_judges(config: TrainConfig, captions: Captions, features: ImageFeatures, rows: Tensor) -> Tensor:
    """Which of the captions `rows` (n,) are trained on, (n,) bool: all by people, and those generated that a judge,
    a trained model, finds right.

    A judge ranks images by each generated caption: those that it was not trained on, and that have captions in `rows`.
    The caption is kept if its own image is among the first `config.judge_rank`. Raises ValueError for a judge that was
    not trained with leave_out, or is damaged, FileNotFoundError for a folder without a model.
    """
    device = choose_device(config.device)
    accepted = ~captions.are_extra(rows)
    for folder in config.judges:
        judge = load_model(folder, device)
        if not judge.config.left_out:
            raise ValueError(f"judges must be trained with leave_out, {folder} was not")
        # a judge that was trained on an image might accept any caption of it
        unseen = in_left_out_part(captions, rows, judge.config.left_out)
        to_judge = (unseen & captions.are_extra(rows)).nonzero()[:, 0]  # (m,) positions in `rows`
        # no image that is new to the judge has generated captions
        if not len(to_judge):
            continue
        image = captions.image[rows[unseen]].unique()
        images = embed_images(judge.model.image, features.values, image, device)
        texts = captions.texts.take(pa.array(rows[to_judge].numpy()))
        vocabulary = judge.vocabularies[judge.config.languages[0]]
        sentences = embed_texts(judge.model.sentences, vocabulary.encode(texts), device)
        image_of_sentence = torch.searchsorted(image, captions.image[rows[to_judge]]).to(device)
        ranks = rank(images, sentences, image_of_sentence, judge.model.similarity)
        accepted[to_judge] = ranks.captions.cpu() <= config.judge_rank
    return accepted


# tables of an evaluation

RECALLS = ("R@1", "R@5", "R@10")
LEAST_PAIRS = 10  # the share of fewer pairs is not printed
COLUMNS = (*RECALLS, "median rank", "mean rank")
WAYS = {"i2t": "image to text", "t2i": "text to image"}
ATTACKS = {
    "vse-c": "vse-c: image to text, each image with the negatives of its own captions",
    "univse": "univse: image to text, all images with the negatives of all captions",
}


def to_markdown(metrics: JsonObject) -> str:
    """The tables of an evaluation, with 95 % bootstrap intervals in brackets; metrics: as in evaluation.json."""
    parts = [_headline(metrics), _retrieval_table(metrics, "retrieval"), _line_on_unknown_words(metrics)]
    for language, entry in metrics.get("languages", {}).items():
        title = f"retrieval, {language}: {entry['images']:,} images, {entry['captions']:,} captions"
        parts.append(_retrieval_table(entry, title))
    heads = {name: [f"{cosine:.2f}"] for name, cosine in metrics.get("heads", {}).items()}
    parts.append(_table_of_rows(["two different attention heads of", "mean cosine"], heads))
    for protocol, title in ATTACKS.items():
        parts.append(_attack_table(title, metrics.get(protocol, {})))
    parts += [
        _sum_of_attacks(metrics.get("univse", {})),
        _plural_table(metrics.get("plural", {})),
        _pair_table(metrics.get("pairwise", {})),
        _component_query_table(metrics.get("unified", {})),
        _alpha_table(metrics.get("alpha", {})),
        _parsing_table(metrics.get("parsing", {})),
    ]
    return "\n\n".join(filter(None, parts))


def _table_of_rows(head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A Markdown table of cells by the name of their row, `{"noun": ["71.2", "400"]}`; empty without rows."""
    return table_if_any(head, [[name, *cells] for name, cells in rows.items()])


def _headline(metrics: JsonObject) -> str:
    """The first line of a report: which model was evaluated, and on what.

    `**vse-c (+noun)** on test: 1,000 images, 5,000 captions`
    """
    families = metrics["negative_families"]
    without = metrics["images_without_features"]
    name = metrics["model"]
    if families:
        name += f" (+{', +'.join(families)})"
    if "caption" in metrics:
        kinds = "+".join(metrics["caption"]["components"]) or "sentence only"
        name += f" (α {metrics['caption']['alpha']:g}, {kinds})"
    if metrics.get("language", LANGUAGE) != LANGUAGE:
        name += f" ({metrics['language']})"
    about = f"**{name}** on {metrics['split']}: {metrics['images']:,} images, {metrics['captions']:,} captions"
    return about + (f"; {without:,} more captions are of images without features" if without else "")


def _line_on_unknown_words(metrics: JsonObject) -> str:
    """A sentence on how many negatives insert a word that the model does not know; empty if hardly any does.

    metrics: "inserting" has the counts by operator.
    """
    inserting = {name: data.UnknownWordCounts(**counts) for name, counts in metrics.get("inserting", {}).items()}
    unknown = data.unknown_words_line(inserting, then="they attack nothing")
    return f"{unknown}." if unknown else ""


def _retrieval_table(metrics: JsonObject, title: str) -> str:
    """Retrieval without attack, a row for each direction; and the means over folds, which have no intervals."""
    rows = []
    for name, suffix in (("retrieval", ""), ("folds of 1000", ", folds of 1,000")):
        values = metrics.get(name, {})
        bounds = {} if suffix else metrics["intervals"]
        for direction, way in WAYS.items() if values else ():
            entry = _of_direction(values, direction)
            entry["intervals"] = _of_direction(bounds, direction)
            rows.append([f"{way}{suffix}", *_recall_cells(entry), ""])
        if values:  # the sum stands in the row of the second direction
            rows[-1][-1] = f"{values['rsum']:.1f}" if suffix else format_interval(values["rsum"], bounds["rsum"])
    return markdown_table([title, *COLUMNS, "rsum"], rows)


def _of_direction(values: JsonObject, direction: str) -> JsonObject:
    """The metrics of a direction: {"i2t R@1": 5, "t2i R@1": 4, …} -> {"R@1": 5, …}."""
    return {name.removeprefix(f"{direction} "): value for name, value in values.items() if name.startswith(direction)}


def _recall_cells(entry: JsonObject) -> list[str]:
    """The cells of COLUMNS: `45.7 (41.2–50.1)` where the entry has an interval of the metric, else `45.7`."""
    cells = []
    for column in COLUMNS:
        bounds = entry["intervals"].get(column)
        cells.append(format_interval(entry[column], bounds) if bounds else f"{entry[column]:.1f}")
    return cells


def _attack_table(title: str, attacks: JsonObject) -> str:
    """Recalls under the attacks of a protocol, a row for each; attacks: metrics by name, such as `noun`."""
    rows = {}
    for name, entry in attacks.items():
        rows[name] = [*_recall_cells(entry), f"{entry['negatives']:,}", f"{entry['negatives_a_caption']:.1f}"]
    return _table_of_rows([title, *COLUMNS, "negatives", "per caption"], rows)


def _sum_of_attacks(attacks: JsonObject) -> str:
    """The figure by which UniVSE's paper compares models under attack, as a sentence."""
    total = sum(entry[column] for entry in attacks.values() for column in RECALLS)
    return f"The sum of R@1, R@5 and R@10 over univse's attacks is {total:.1f}." if attacks else ""


def _plural_table(plural: JsonObject) -> str:
    """VSE-C's Table 4: recalls of images whose captions count several things, without attack and with numerals."""
    if not plural:
        return ""
    title = f"plural split: {plural['images']:,} images, {plural['captions']:,} captions"
    rows = {
        "plain": [*_recall_cells(plural["plain"]), ""],  # no negatives attack here
        "numeral": [*_recall_cells(plural["numeral"]), f"{plural['negatives']:,}"],
    }
    return _table_of_rows([title, *COLUMNS, "negatives"], rows)


def _pair_table(pairwise: JsonObject) -> str:
    """By operator, how often a caption is above its first negative: of all pairs, and of those of known words."""
    rows = {}
    for operator, entry in sorted(pairwise.items()):
        cells_of_known = _share_and_count(entry["known"]) if "known" in entry else ["–", "0"]
        rows[operator] = [*_share_and_count(entry), *cells_of_known]
    return _table_of_rows(["caption above its first negative", "%", "pairs", "%, of known words", "pairs"], rows)


def _share_and_count(pairs: JsonObject) -> list[str]:
    """How often a caption is above its negative, and the number of pairs: `71.2 (66.0–76.1)`, `400`."""
    share = "–"  # of fewer pairs a share says nothing
    if pairs["pairs"] >= LEAST_PAIRS:
        share = format_interval(pairs["accuracy"], pairs["interval"])
    return [share, f"{pairs['pairs']:,}"]


def _component_query_table(unified: JsonObject) -> str:
    """How well images are found by components of each kind, as a Markdown table like UniVSE's Table 3."""
    rows = {}
    for kind, entry in unified.items():
        rows[kind] = [f"{entry['mAP']:.1f}", f"{entry['images']:.1f}", f"{entry['queries']:,}"]
    return _table_of_rows(["text to image by", "mAP", "% of images that match", "queries"], rows)


def _alpha_table(curve: JsonObject) -> str:
    """UniVSE's Figure 5: metrics by α, a row for each α; curve: `{"0.0": {"rsum": 301.2, …}, "0.1": …}`."""
    names = list(next(iter(curve.values()), {}))
    rows = {alpha: [f"{entry[name]:.1f}" for name in names] for alpha, entry in curve.items()}
    return _table_of_rows(["α", *names], rows)


def _parsing_table(parsing: JsonObject) -> str:
    """UniVSE's Table 4: how often the image chooses the right noun of an attribute, or the right ends of a relation,
    beside a random choice. The paper's figure for relations is `either`.
    """
    rows = {}
    for kind, entry in parsing.items():  # "attribute" or "relation"
        for name in ("noun", "subject", "object", "either", "both"):
            if name in entry:
                by_chance = entry[f"{name}, random"]
                cells = [f"{entry[name]:.1f}", f"{by_chance:.1f}", f"{entry['questions']:,}"]
                rows[f"{name} of the {kind}"] = cells
    return _table_of_rows(["chosen by the image", "%", "by chance", "questions"], rows)
