"""The evaluation of a model on a split of a run; the results as Markdown, JSON and Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from ..config import EvaluateConfig, TrainConfig
from ..data import Captions, Corpus
from ..device import choose_device
from ..evaluation import components
from ..evaluation.protocols import (
    NO_PAIRS,
    choose_attacks,
    complete_captions,
    plain_retrieval,
    run_protocols,
    with_negatives,
)
from ..evaluation.retrieval import embed_images, embed_split, embed_texts, rank
from ..features import ImageFeatures, read_features
from ..figures import format_interval, markdown_table, write_results
from ..mhad import MultiHeadAttention, head_cosines
from ..univse.metrics import alpha_curve, parsing_accuracy
from ..univse.model import UniVSE
from ..vocabulary import UNKNOWN_ID
from . import OBJECTIVES, load_model


class Evaluation(NamedTuple):
    """The metrics by protocol, and the ranks and pairs that they are computed from, see `Results`."""

    metrics: dict[str, Any]
    ranks: pd.DataFrame
    pairs: pd.DataFrame = NO_PAIRS


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
    """Compute all metrics of a model on a split of a run. Raises FileNotFoundError or ValueError for a folder without a
    trained model; a run without the split, its captions, features of the model's size, or images as config.complete
    asks for; or config.components or config.alpha for a model other than UniVSE.
    """
    torch.set_num_threads(config.threads)
    chosen_device = choose_device(config.device)
    its_negatives = data.Selection(splits=(config.split,))
    model, trained, corpus = load_with_corpus(model_folder, run, chosen_device, its_negatives, **config.changes)
    captions = corpus.captions
    features = corpus.features
    needs_components = OBJECTIVES[trained.model].needs_components
    if config.drop_components and not needs_components:
        raise ValueError(f"drop_components can only be set for a univse model, {model_folder} is: {trained.model}")
    if config.alpha is not None and getattr(trained, "learn_alpha", False):
        raise ValueError(f"alpha cannot be set, as {model_folder} has learned it: {model.alpha_value:.2f}")
    of_split = (config.split, features.available, config.limit)
    n = config.captions_per_image
    chosen, *others = (captions.to_evaluate(*of_split, n, language) for language in captions.languages)
    if config.complete:
        chosen = complete_captions(corpus, chosen, config.complete)
    attacks = choose_attacks(corpus, chosen, config)
    if needs_components:
        graphs = data.read_graphs(run, captions, corpus.vocabulary, corpus.device)
        graphs = with_negatives(run, graphs, torch.cat([*attacks.values()]).unique(), corpus, config.spacy_model)
        if config.drop_components:
            every = torch.arange(len(graphs.pairs.offsets) - 1)
            graphs = graphs.thinned(every, config.drop_components, config.seed)
        corpus = corpus.with_graphs(graphs)
    split = embed_split(model, corpus, chosen, config.seed)
    metrics, ranks, pairs = run_protocols(split, attacks)
    tables = [ranks]
    metrics["languages"] = {}
    heads = {"images": split.images, captions.languages[0]: split.vectors}
    for language, rows in zip(captions.languages[1:], others, strict=True):
        further = embed_split(model, corpus, rows, config.seed)
        heads[language] = further.vectors
        its, ranks = plain_retrieval(further, further.rank(captions.languages.index(language)), f"plain:{language}")
        metrics["languages"][language] = {"images": len(further.images), "captions": len(rows), **its}
        tables.append(ranks)
    if isinstance(model, MultiHeadAttention) and model.head_count > 1:
        cosines = {name: head_cosines(model.heads(vectors)) for name, vectors in heads.items()}
        metrics["heads"] = {name: values.mean().item() for name, values in cosines.items()}
    english = LANGUAGE == captions.languages[0]
    if english and all(has_table(run, name) for name in ("components", "component_vocabulary", "parses")):
        rows, parses = (data.read_caption_rows(run, name, split.caption_ids) for name in ("components", "parses"))
        frequent = data.read_whole_table(run, "component_vocabulary")
        forms = components.written_forms(rows, parses)
        queries = components.frequent_queries(rows, frequent, split.owner.tolist(), len(split.images), forms)
        if config.instances:
            files = data.image_files(run)
            found = components.detected_queries(config.instances, [files[name] for name in split.image_ids])
            queries[components.DETECTED] = found
        words = corpus.vocabulary
        embed = getattr(model, "plain_sentences", model.sentences)

        def read(phrases: Sequence[data.QueryPhrase]) -> Tensor:  # as sentences
            return embed_texts(embed, words.encode([phrase.text for phrase in phrases]), corpus.device)

        retrieve = partial(components.unified_retrieval, images=split.images, similarity=model.similarity)
        if isinstance(model, UniVSE):
            metrics["unified"] = retrieve(queries, partial(model.queries, words))
            sentences = {f"{kind}, as a sentence": queries[kind] for kind in ("object", "attribute")}
            metrics["unified"] |= retrieve(sentences, read)
            metrics["alpha"] = alpha_curve(model, split, attacks)
            metrics["parsing"] = parsing_accuracy(model, split, rows.to_pylist())
        else:
            metrics["unified"] = retrieve(queries, read)
            names = set(data.component_names(run))

            def known(name: str) -> bool:  # to UniVSE, trained on the same captions
                return name in names or data.component_ids(words, [name])[0] != UNKNOWN_ID

            rules = model.similarity, forms, known
            metrics["parsing"] = components.phrase_parsing(read, rows.to_pylist(), split, *rules)
    without = ~features.available[captions.image[captions.of_split(config.split)]]
    about = {"model": trained.model, "language": captions.languages[0]}
    about["negative_families"] = list(trained.trained_families)
    if needs_components:
        about["caption"] = {"components": trained.components, "alpha": model.alpha_value}
    about |= {"trained_with_seed": trained.seed, "split": config.split, "images": len(split.images)}
    about |= {"captions": len(chosen), "images_without_features": int(without.sum())}
    about["inserting"] = {name: counts._asdict() for name, counts in corpus.inserting.items()}
    return Evaluation({**about, **metrics}, pd.concat(tables, ignore_index=True), pairs)


def load_with_corpus(
    folder: Path, run: Path, device: torch.device, negatives: data.Selection | None = None, **changes: Any
) -> tuple[Any, Any, Corpus]:
    """A trained model, its config, and the corpus to measure it on, with these negatives (None: none). changes: see
    `load_model`. Raises as that and `read_captions`.
    """
    model, vocabularies, config = load_model(folder, device, **changes)
    captions = data.read_captions(run, languages=config.languages)
    features = features_for(model, run, captions.image_ids, config.table)
    return model, config, data.encode_run(run, captions, vocabularies, features, device, negatives)


def features_for(model: Any, run: Path, image_ids: Sequence[str], table: str) -> ImageFeatures:
    """The features of images for a model. Raises as `read_features`, and ValueError for another size."""
    features = read_features(run, image_ids, table)
    size = model.image.linear.in_features
    if (found := features.values.shape[-1]) != size:
        raise ValueError(f"features of {run} must have {size} numbers for this model, have {found}")
    return features


def left_out(captions: Captions, rows: Tensor, part: int, parts: int) -> Tensor:
    """Which of the captions `rows` (n,) are of images in a part, from 0, of so many, by the image's id; (n,) bool."""
    inside = [int(record_rng(0, "part", image).random() * parts) == part for image in captions.image_ids]
    return torch.tensor(inside, dtype=torch.bool)[captions.image[rows]]


def believed(config: TrainConfig, captions: Captions, features: ImageFeatures, rows: Tensor) -> Tensor:
    """Which of the captions `rows` (n,) are trained on: all but those of the table `extra` that no judge ranks well.

    A judge ranks the images of the part that it was trained without, as many of them as have captions in `rows`, for
    each generated caption of these images; the caption is kept if its own image is among the first `judge_rank`.
    Returns (n,) bool. Raises ValueError for a judge that was not trained with leave_out, and as `load_model`.
    """
    device = choose_device(config.device)
    kept = ~captions.are_extra(rows)
    for folder in config.judges:
        model, vocabularies, trained = load_model(folder, device)
        if not trained.left_out:
            raise ValueError(f"judges must be trained with leave_out, {folder} was not")
        inside = left_out(captions, rows, *trained.left_out)
        judged = (inside & captions.are_extra(rows)).nonzero()[:, 0]
        if not len(judged):
            continue
        image = captions.image[rows[inside]].unique()
        texts = captions.texts.take(pa.array(rows[judged].numpy()))
        images = embed_images(model.image, features.values, image, device)
        sentences = embed_texts(model.sentences, vocabularies[trained.languages[0]].encode(texts), device)
        owner = torch.searchsorted(image, captions.image[rows[judged]]).to(device)
        kept[judged] = rank(images, sentences, owner, model.similarity).captions.cpu() <= config.judge_rank
    return kept


RECALLS = ("R@1", "R@5", "R@10")
LEAST_PAIRS = 10  # whose share is printed
COLUMNS = (*RECALLS, "median rank", "mean rank")
WAYS = {"i2t": "image to text", "t2i": "text to image"}
ATTACKS = {
    "vse-c": "vse-c: image to text, each image with the negatives of its own captions",
    "univse": "univse: image to text, all images with the negatives of all captions",
}


def to_markdown(metrics: Mapping[str, Any]) -> str:
    """The tables of an evaluation, with 95 % bootstrap intervals in brackets; metrics: as in evaluation.json."""
    families = metrics["negative_families"]
    without = metrics["images_without_features"]
    name = metrics["model"] + (f" (+{', +'.join(families)})" if families else "")
    if "caption" in metrics:
        name += f" (α {metrics['caption']['alpha']:g}, {'+'.join(metrics['caption']['components']) or 'sentence only'})"
    if metrics.get("language", "en") != "en":
        name += f" ({metrics['language']})"
    about = f"**{name}** on {metrics['split']}: {metrics['images']:,} images, {metrics['captions']:,} captions"
    about += f"; {without:,} more captions are of images without features" if without else ""
    parts = [about, _retrieval(metrics, "retrieval")]
    inserting = {name: data.UnknownWordCounts(**counts) for name, counts in metrics.get("inserting", {}).items()}
    if unknown := data.unknown_words_line(inserting, "they attack nothing"):
        parts.append(f"{unknown}.")

    def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        if filled := list(rows):
            parts.append(markdown_table(head, filled))

    for language, entry in metrics.get("languages", {}).items():
        title = f"retrieval, {language}: {entry['images']:,} images, {entry['captions']:,} captions"
        parts.append(_retrieval(entry, title))
    heads = metrics.get("heads", {}).items()
    table(["two different attention heads of", "mean cosine"], ([name, f"{cosine:.2f}"] for name, cosine in heads))
    for protocol, title in ATTACKS.items():
        cells = []
        for name, its in metrics.get(protocol, {}).items():
            counts = f"{its['negatives']:,}", f"{its['negatives_a_caption']:.1f}"
            cells.append([name, *_cells(its), *counts])
        table([title, *COLUMNS, "negatives", "per caption"], cells)
    if found := metrics.get("univse"):
        total = sum(entry[column] for entry in found.values() for column in RECALLS)
        parts.append(f"The sum of R@1, R@5 and R@10 over univse's attacks is {total:.1f}.")
    if plural := metrics.get("plural"):
        title = f"plural split: {plural['images']:,} images, {plural['captions']:,} captions"
        numbers = {"plain": "", "numeral": f"{plural['negatives']:,}"}
        table([title, *COLUMNS, "negatives"], ([name, *_cells(plural[name]), n] for name, n in numbers.items()))
    pairs = sorted(metrics.get("pairwise", {}).items())
    cells = [[name, *_share(its), *(_share(its["known"]) if "known" in its else ["–", "0"])] for name, its in pairs]
    table(["caption above its first negative", "%", "pairs", "%, of known words", "pairs"], cells)
    unified = ((kind, its["mAP"], its["images"], its["queries"]) for kind, its in metrics.get("unified", {}).items())
    cells = [[kind, f"{precision:.1f}", f"{share:.1f}", f"{count:,}"] for kind, precision, share, count in unified]
    table(["text to image by", "mAP", "% of images that match", "queries"], cells)  # UniVSE's Table 3
    if found := metrics.get("alpha"):  # UniVSE's Figure 5
        names = list(next(iter(found.values())))
        table(["α", *names], ([alpha, *(f"{entry[name]:.1f}" for name in names)] for alpha, entry in found.items()))
    cells = []
    for word, its in metrics.get("parsing", {}).items():
        for name in (name for name in its if f"{name}, random" in its):
            by_image, by_chance = (f"{its[key]:.1f}" for key in (name, f"{name}, random"))
            cells.append([f"{name} of the {word}", by_image, by_chance, f"{its['questions']:,}"])
    table(["chosen by the image", "%", "by chance", "questions"], cells)  # UniVSE's Table 4; relations: `either`
    return "\n\n".join(parts)


def _share(pairs: Mapping[str, Any]) -> list[str]:
    """How often a caption is above its negative, and the number of pairs."""
    many = pairs["pairs"] >= LEAST_PAIRS
    return [format_interval(pairs["accuracy"], pairs["interval"]) if many else "–", f"{pairs['pairs']:,}"]


def _retrieval(metrics: Mapping[str, Any], title: str) -> str:
    rows = []
    for name, suffix in (("retrieval", ""), ("folds of 1000", ", folds of 1,000")):
        values = metrics.get(name, {})
        bounds = {} if suffix else metrics["intervals"]  # the means over folds have none
        for direction, way in WAYS.items() if values else ():
            its, of = ({k[4:]: v for k, v in part.items() if k.startswith(direction)} for part in (values, bounds))
            rows.append([f"{way}{suffix}", *_cells({**its, "intervals": of}), ""])
        if values:
            rows[-1][-1] = f"{values['rsum']:.1f}" if suffix else format_interval(values["rsum"], bounds["rsum"])
    return markdown_table([title, *COLUMNS, "rsum"], rows)


def _cells(entry: Mapping[str, Any]) -> list[str]:
    bounds = entry["intervals"]
    cells = ((entry[column], bounds.get(column)) for column in COLUMNS)
    return [format_interval(value, between) if between else f"{value:.1f}" for value, between in cells]
