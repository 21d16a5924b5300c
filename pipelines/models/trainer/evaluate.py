"""Retrieval of a model on a split of a run, plain and attacked; tables as Markdown, JSON and Parquet."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from negcap.pipelines.engine.shards import PARQUET, list_shards, write_atomically, write_json
from negcap.pipelines.models.checkpoint import load_model
from negcap.pipelines.models.components import read_graphs, read_rows
from negcap.pipelines.models.data import Captions, encode_run, read_captions, read_features
from negcap.pipelines.models.embed import embed_images, embed_sentences
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.config import EvaluateConfig
from negcap.pipelines.models.trainer.material import device_of
from negcap.pipelines.models.trainer.negative_components import with_negatives
from negcap.pipelines.models.trainer.objectives import OBJECTIVES
from negcap.pipelines.models.trainer.protocols import Found, Split, choose_attacks, run_protocols
from negcap.pipelines.models.trainer.report import to_markdown
from negcap.pipelines.models.trainer.unified import Said, frequent, unified, written_forms
from negcap.schemas.fields import check
from negcap.schemas.ranks import RANKS


@dataclass(frozen=True)
class Evaluation:
    """Metrics by table, and the ranks behind them: (candidates, direction, ids of the queries, ranks)."""

    metrics: dict[str, Any]
    ranks: Found = field(repr=False)

    def table(self) -> pa.Table:
        """The ranks as rows of the table ranks."""
        parts = [
            pa.table([[name] * len(ids), [direction] * len(ids), ids, pa.array(values.cpu().numpy().astype(np.int32))],
                     schema=RANKS)
            for name, direction, ids, values in self.ranks
        ]  # fmt: skip
        return pa.concat_tables(parts).combine_chunks()


def evaluate(model_folder: Path, run: Path, config: EvaluateConfig, output: Path | None = None) -> str:
    """Evaluate a model on a run; the tables as Markdown.

    Writes them to `output`, by default `<model>/evaluation`. Raises
    FileNotFoundError or ValueError for a folder that is no model's, a run without the split, its captions or features
    of another shape.
    """
    made = measure(model_folder, run, config)
    return write(made, output or model_folder / "evaluation")


def write(made: Evaluation, folder: Path) -> str:
    """Write evaluation.json, evaluation.md and ranks.parquet to a folder; the tables as Markdown."""
    text = to_markdown(made.metrics)
    folder.mkdir(parents=True, exist_ok=True)
    table = made.table()
    check(table, RANKS)
    sink = io.BytesIO()
    pq.write_table(table, sink, **PARQUET)
    write_atomically(folder / "ranks.parquet", sink.getvalue())
    write_atomically(folder / "evaluation.md", (text + "\n").encode())
    write_json(folder / "evaluation.json", made.metrics)
    return text


def measure(model_folder: Path, run: Path, config: EvaluateConfig) -> Evaluation:
    """All metrics of a model on a split of a run. Raises as `evaluate`."""
    torch.set_num_threads(config.threads)
    device = device_of(config.device)
    model, vocabulary, told = load_model(model_folder, device, **config.changes)
    objective = OBJECTIVES[told.model]
    if config.changes and not objective.components:
        raise ValueError(f"{', '.join(config.changes)} can be set for a univse model, {model_folder} is: {told.model}")
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, told.table)
    wide = model.image.linear.in_features
    if features.values.shape[-1] != wide:
        raise ValueError(f"features of {run} must have {wide} numbers as the model's, have {features.values.shape[-1]}")
    chosen = _of_split(captions, features.there, config)
    corpus = encode_run(run, captions, vocabulary)
    image, owner = captions.image[chosen].unique(return_inverse=True)
    attacks = choose_attacks(corpus, chosen, config)
    graphs = None
    if objective.components:
        graphs = read_graphs(run, captions, vocabulary, device)
        graphs = with_negatives(run, graphs, attacks.rows, len(corpus.operator), vocabulary, config.spacy_model)
    texts = Texts(corpus.tokens.to(device), corpus.offsets, corpus.captions, graphs)
    split = Split(
        model,
        corpus,
        texts,
        chosen,
        owner,
        [captions.ids[n] for n in chosen.tolist()],
        [captions.image_ids[n] for n in image.tolist()],
        embed_images(model.image, features.values, image, device),
        embed_sentences(model.sentences, texts, chosen),
        config.seed,
    )
    metrics, ranks = run_protocols(split, attacks)
    if all(list_shards(run / name) for name in ("components", "parses")):
        components, parses = (read_rows(run, name, split.caption_ids) for name in ("components", "parses"))
        said = Said(vocabulary, components, parses, features.values[image].to(device))
        queries = frequent(said.components, owner.tolist(), len(image), written_forms(said.components, said.parses))
        metrics["unified"] = unified(queries, partial(model.queries, vocabulary), split.images)
        metrics.update(objective.tasks(model, split, attacks, said))
    about = {
        "model": told.model,
        "negative_families": list(told.negative_families) if told.model == "vse-c" else [],
        **({"caption": {"components": told.components, "alpha": told.alpha}} if objective.components else {}),
        "trained_with_seed": told.seed,
        "split": config.split,
        "images": len(split.images),
        "captions": len(chosen),
        "images_without_features": int((~features.there[captions.image[captions.of_splits([config.split])]]).sum()),
    }
    return Evaluation({**about, **metrics}, ranks)


def _of_split(captions: Captions, there: Tensor, config: EvaluateConfig) -> Tensor:
    chosen = captions.to_measure(captions.of_split(config.split))
    chosen = chosen[there[captions.image[chosen]]]
    if not len(chosen):
        raise ValueError(f"split {config.split!r} must have captions of images with features, has none")
    if config.limit:
        kept = captions.image[chosen].unique()[: config.limit]
        chosen = chosen[torch.isin(captions.image[chosen], kept)]
    return chosen
