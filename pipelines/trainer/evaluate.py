"""Retrieval of a model on a split of a run, plain and attacked; tables as Markdown, JSON and Parquet."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from pipelines.engine.shards import PARQUET, write_atomically, write_json
from pipelines.trainer.attacks import FAMILIES, Attack, attacked, choose, preset_operators, score
from pipelines.trainer.checkpoint import load_model
from pipelines.trainer.config import EvaluateConfig
from pipelines.trainer.data import Captions, Corpus, encode_run, read_captions, read_features
from pipelines.trainer.embed import embed_images, embed_sentences
from pipelines.trainer.material import device_of
from pipelines.trainer.models import EmbeddingModel
from pipelines.trainer.report import to_markdown
from pipelines.trainer.retrieval import folds, hits, intervals, own_scores, rank, recalls, retrieval
from schemas.fields import check
from schemas.ranks import RANKS

FOLD, FOLDED_FROM = 1000, 5000


@dataclass(frozen=True)
class Evaluation:
    """Metrics by table, and the ranks behind them: (candidates, direction, ids of the queries, ranks)."""

    metrics: dict[str, Any]
    ranks: list[tuple[str, str, list[str], Tensor]] = field(repr=False)

    def table(self) -> pa.Table:
        """The ranks as rows of the table ranks."""
        parts = [
            pa.table([[name] * len(ids), [direction] * len(ids), ids, pa.array(values.cpu().numpy().astype(np.int32))],
                     schema=RANKS)
            for name, direction, ids, values in self.ranks
        ]  # fmt: skip
        return pa.concat_tables(parts).combine_chunks()


@dataclass(frozen=True)
class _Test:
    """A split in the joint space: captions (n,) of it, the row of each one's image, and the vectors."""

    model: EmbeddingModel
    corpus: Corpus
    tokens: Tensor
    captions: Tensor
    owner: Tensor
    caption_ids: list[str]
    image_ids: list[str]
    images: Tensor
    vectors: Tensor
    seed: int

    @property
    def row(self) -> Tensor:
        """(C,) the row of the image of any caption of the corpus; 0 for those of other splits."""
        rows = torch.zeros(self.corpus.captions, dtype=torch.long)
        rows[self.captions] = self.owner
        return rows

    def of(self, attack: Attack) -> Tensor:
        """The image of each of an attack's negatives."""
        return self.row[self.corpus.negative_caption[attack.rows]]


def evaluate(model_folder: Path, run: Path, config: EvaluateConfig, output: Path | None = None) -> str:
    """Evaluate a model on a run; the tables as Markdown.

    Writes evaluation.json, evaluation.md and ranks.parquet to `output`, by default `<model>/evaluation`. Raises
    FileNotFoundError or ValueError for a folder that is no model's, a run without the split, its captions or features
    of another shape.
    """
    torch.set_num_threads(config.threads)
    made = measure(model_folder, run, config)
    text = to_markdown(made.metrics)
    folder = output or model_folder / "evaluation"
    folder.mkdir(parents=True, exist_ok=True)
    table = made.table()
    check(table, RANKS)
    sink = io.BytesIO()
    import pyarrow.parquet as pq

    pq.write_table(table, sink, **PARQUET)
    write_atomically(folder / "ranks.parquet", sink.getvalue())
    write_atomically(folder / "evaluation.md", (text + "\n").encode())
    write_json(folder / "evaluation.json", made.metrics)
    return text


def measure(model_folder: Path, run: Path, config: EvaluateConfig) -> Evaluation:
    """All metrics of a model on a split of a run. Raises as `evaluate`."""
    device = device_of(config.device)
    model, vocabulary, told = load_model(model_folder, device)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids)
    wide = model.image.linear.in_features
    if features.values.shape[-1] != wide:
        raise ValueError(f"features of {run} must have {wide} numbers as the model's, have {features.values.shape[-1]}")
    chosen = _of_split(captions, features.there, config)
    corpus = encode_run(run, captions, vocabulary)
    image, owner = captions.image[chosen].unique(return_inverse=True)
    tokens = corpus.tokens.to(device)
    test = _Test(
        model,
        corpus,
        tokens,
        chosen,
        owner,
        [captions.ids[n] for n in chosen.tolist()],
        [captions.image_ids[n] for n in image.tolist()],
        embed_images(model, features.values, image, device),
        embed_sentences(model, tokens, corpus.offsets, chosen),
        config.seed,
    )
    metrics: dict[str, Any] = {
        "model": told.model,
        "negative_families": list(told.negative_families) if told.model == "vse-c" else [],
        "trained_with_seed": told.seed,
        "split": config.split,
        "images": len(test.images),
        "captions": len(chosen),
        "images_without_features": int((~features.there[captions.image[captions.of_splits([config.split])]]).sum()),
    }
    ranks: list[tuple[str, str, list[str], Tensor]] = []
    _retrieve(test, metrics, ranks)
    if len(corpus.operator):
        _attack(test, config, metrics, ranks)
    return Evaluation(metrics, ranks)


def _of_split(captions: Captions, there: Tensor, config: EvaluateConfig) -> Tensor:
    chosen = captions.of_splits([config.split])
    if not len(chosen):
        known = ", ".join(repr(name) for name in captions.splits.unique().to_pylist())
        raise ValueError(f"split must be one of {known}, was: {config.split!r}")
    chosen = chosen[there[captions.image[chosen]]]
    if not len(chosen):
        raise ValueError(f"split {config.split!r} must have captions of images with features, has none")
    if config.limit:
        kept = captions.image[chosen].unique()[: config.limit]
        chosen = chosen[torch.isin(captions.image[chosen], kept)]
    return chosen


def _retrieve(test: _Test, metrics: dict[str, Any], ranks: list[tuple[str, str, list[str], Tensor]]) -> None:
    """Without attack, with intervals; and the means of folds for a large test."""
    owner = test.owner.to(test.images.device)
    plain = rank(test.images, test.vectors, owner)
    everyone = torch.arange(len(test.images))
    i2t = hits(plain.images.cpu(), everyone, len(everyone))
    t2i = hits(plain.captions.cpu(), test.owner, len(everyone))
    first, second, both = intervals([i2t, t2i], test.seed)
    metrics["retrieval"] = retrieval(plain)
    metrics["intervals"] = {
        **{f"i2t R@{k}": list(first[n]) for n, k in enumerate((1, 5, 10))},
        **{f"t2i R@{k}": list(second[n]) for n, k in enumerate((1, 5, 10))},
        "rsum": list(both[0]),
    }
    if len(test.images) >= FOLDED_FROM:
        metrics["folds of 1000"] = folds(test.images, test.vectors, owner, FOLD)
    ranks += [("plain", "i2t", test.image_ids, plain.images), ("plain", "t2i", test.caption_ids, plain.captions)]


def _attack(
    test: _Test, config: EvaluateConfig, metrics: dict[str, Any], ranks: list[tuple[str, str, list[str], Tensor]]
) -> None:
    """Every protocol; the negatives are embedded once for all."""
    corpus = test.corpus
    families = {name: choose(corpus, test.captions, ops, config.per_family) for name, ops in FAMILIES.items()}
    crowds = {
        name: choose(corpus, test.captions, [name], config.per_attack) for name in preset_operators(corpus, "univse")
    }
    firsts = {name: choose(corpus, test.captions, [name], 1) for name in corpus.operators}
    owner = test.owner.to(test.images.device)
    plain = rank(test.images, test.vectors, owner)
    alone = [attack.rows for attack in (*families.values(), *firsts.values())]
    together = {name: attack.rows for name, attack in crowds.items()}
    scores = score(test.model, corpus, test.tokens, test.images, test.row, plain.best, alone, together)
    everything = Attack(torch.cat([attack.rows for attack in families.values()]), 0)
    by_name = {name: attack for name, attack in {**families, "total": everything}.items() if len(attack.rows)}
    metrics["vse-c"] = {}
    for name, attack in by_name.items():
        under = attacked(plain, scores.own, attack.rows, test.of(attack))
        metrics["vse-c"][name] = _described(under, attack, test)
        ranks.append((f"vse-c:{name}", "i2t", test.image_ids, under))
    metrics["univse"] = {}
    for name, attack in crowds.items():
        under = plain.images + scores.crowded[name]
        metrics["univse"][name] = _described(under.cpu(), attack, test)
        ranks.append((f"univse:{name}", "i2t", test.image_ids, under))
    _plural(test, families["numeral"], scores.own, metrics, ranks)
    true = torch.zeros(corpus.captions)
    true[test.captions] = own_scores(test.images, test.vectors, owner).cpu()
    metrics["pairwise"] = {}
    for name, attack in firsts.items():
        if len(attack.rows):
            right = (true[corpus.negative_caption[attack.rows]] > scores.own[attack.rows]).double()
            ofs = test.of(attack)
            table = torch.zeros(len(test.images), 2, dtype=torch.double)
            table.index_add_(0, ofs, torch.stack([right, torch.ones_like(right)], 1))
            low, high = intervals([table], test.seed)[0][0]
            accuracy = 100.0 * right.mean().item()
            metrics["pairwise"][name] = {"pairs": len(right), "accuracy": accuracy, "interval": [low, high]}


def _described(under: Tensor, attack: Attack, test: _Test) -> dict[str, Any]:
    bounds = intervals([hits(under, torch.arange(len(under)), len(under))], test.seed)[0]
    owners = test.corpus.negative_caption[attack.rows].unique()
    return {
        **recalls(under),
        "intervals": {f"R@{k}": list(bounds[n]) for n, k in enumerate((1, 5, 10))},
        "negatives": len(attack.rows),
        "captions_with_negatives": len(owners),
        "negatives_a_caption": len(attack.rows) / max(1, len(test.captions)),
    }


def _plural(
    test: _Test,
    numeral: Attack,
    own: Tensor,
    metrics: dict[str, Any],
    ranks: list[tuple[str, str, list[str], Tensor]],
) -> None:
    """The captions that count beyond one and their images, alone; then with the numeral negatives of them."""
    inside = test.corpus.plural[test.captions]
    if not inside.any():
        return
    image, owner = test.owner[inside].unique(return_inverse=True)
    images, device = test.images[image.to(test.images.device)], test.images.device
    plain = rank(images, test.vectors[inside.to(device)], owner.to(device))
    rows = numeral.rows[test.corpus.plural[test.corpus.negative_caption[numeral.rows]]]
    place = torch.zeros(len(test.images), dtype=torch.long)
    place[image] = torch.arange(len(image))
    attack = Attack(rows, int(inside.sum()))
    under = attacked(plain, own, rows, place[test.of(attack)])
    everyone = torch.arange(len(image))
    bounds = intervals([hits(plain.images.cpu(), everyone, len(image)), hits(under, everyone, len(image))], test.seed)
    said: dict[str, Any] = {"images": len(image), "captions": int(inside.sum()), "negatives": len(rows)}
    for name, values, found in (("plain", plain.images.cpu(), bounds[0]), ("numeral", under, bounds[1])):
        said[name] = {**recalls(values), "intervals": {f"R@{k}": list(found[n]) for n, k in enumerate((1, 5, 10))}}
    metrics["plural"] = said
    ids = [test.image_ids[n] for n in image.tolist()]
    ranks += [("plural", "i2t", ids, plain.images), ("plural:numeral", "i2t", ids, under)]
