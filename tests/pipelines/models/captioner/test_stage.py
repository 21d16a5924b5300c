"""Captions written for a run by `negcap caption`, what is done with them, and the evaluation of a captioner."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.models.captioner.generate import normalize
from negcap.pipelines.models.data import read_captions, split_captions
from negcap.schemas.captions import GENERATED, REFUSED_CAPTIONS
from negcap.schemas.fields import check
from tests.docs.pages import FOLDER, snippet_with

SMALL = "--set word_dim=32 --set hidden=64 --set joint=32 --set noise=4 --threads 1 --quiet".split()
PHASES = "--mle-epochs 6 --set discriminator_epochs=1 --gan-epochs 1 --set stages=2".split()
FIT = ["--joint", "16", "--set", "word_dim=8", "--epochs", "1", "--threads", "1", "--quiet"]
RATES = "--set supervised_rate=1e-2 --set batch_size=32 --set min_count=2".split()


def negcap(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def caption(run: Path, *given: object) -> int:
    return negcap("caption", run.parent / "m", run, "--scheduler", "synchronous", "--quiet", *given)


def rows(run: Path, table: str) -> pa.Table:
    return pq.read_table(run / table)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captioner") / "run"
    assert negcap("scenes", "--output", folder, "--images", 40, "--quiet") == 0
    assert negcap("captioner", folder, "--output", folder.parent / "m", *SMALL, *PHASES, *RATES) == 0
    assert caption(folder) == 0
    return folder


def test_captions_are_new_and_rejected_ones_have_a_reason(run: Path) -> None:
    generated, refused, people = rows(run, "generated"), rows(run, "refused_captions"), rows(run, "captions")
    check(generated, GENERATED)
    check(refused, REFUSED_CAPTIONS)
    images = Counter(generated["image_id"].to_pylist())
    train = set(people.filter(pc.equal(people["split"], "train"))["image_id"].to_pylist())
    assert set(images) <= train and max(images.values()) == 3 and len(generated) > 2 * len(train)
    numbered = [f"generated:{image}:{n}" for image, count in images.items() for n in range(count)]
    assert generated["caption_id"].to_pylist() == numbered
    new, known = (
        list(zip(table["image_id"].to_pylist(), normalize(table["text"].combine_chunks()).to_pylist(), strict=True))
        for table in (generated, people)
    )
    assert len(set(new)) == len(new) and not set(known) & set(new)
    counts = json.loads((run / "_manifests" / "generated.json").read_text())["counts"]
    reasons = {name.removeprefix("refused."): n for name, n in counts.items() if name.startswith("refused.")}
    assert reasons == Counter(refused["reason"].to_pylist()) and counts["captions"] == len(generated)
    metadata = pq.read_schema(run / "generated" / "part-00000.parquet").metadata
    assert json.loads(metadata[b"config"])["weights"].startswith("gan.safetensors sha256:")


def test_each_way_of_writing_and_the_same_command_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert caption(run, *"--decoding greedy --phase mle --table generated_greedy --split test,val".split()) == 0
    assert set(rows(run, "generated_greedy")["split"].to_pylist()) == {"test", "val"}
    assert "repeat" in rows(run, "refused_captions_greedy")["reason"].to_pylist()
    assert caption(run, "--decoding", "beam", "--table", "generated_beam", "--per-image", 1) == 0
    assert max(Counter(rows(run, "generated_beam")["image_id"].to_pylist()).values()) == 1
    shard = run / "generated" / "part-00000.parquet"
    before = shard.read_bytes()
    shard.write_bytes(before[:-10])
    assert caption(run) == 0 and shard.read_bytes() == before
    assert caption(run, "--seed", 1, "--table", "generated_other") == 0
    texts, others = (set(rows(run, table)["text"].to_pylist()) for table in ("generated", "generated_other"))
    assert len(texts - others) > len(texts) / 2
    capsys.readouterr()
    assert caption(run, "--seed", 1) == 2 and "seed was 0, is now 1" in capsys.readouterr().err
    assert caption(run, "--split", "dev", "--table", "generated_none") == 2
    assert "splits must have images with features, have none: dev" in capsys.readouterr().err


@pytest.mark.dask
def test_worker_processes_write_the_same_bytes(run: Path) -> None:
    assert negcap("caption", run.parent / "m", run, "--workers", 1, "--table", "generated_dask", "--quiet") == 0
    assert rows(run, "generated_dask").equals(rows(run, "generated"))


def test_a_run_of_both_is_made_as_the_page_shows(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[pd.DataFrame] = []
    monkeypatch.setattr("negcap.build", lambda captions, output, keep_columns: built.append(captions[keep_columns]))
    snippet_with("def enlarge", FOLDER / "how-to" / "captioner.md").enlarge(run, "new")
    expected = {"person": len(rows(run, "captions")), "captioner": len(rows(run, "generated"))}
    assert built[0]["writer"].value_counts().to_dict() == expected


def test_only_a_table_of_captions_is_extra(run: Path) -> None:
    with pytest.raises(ValueError, match="extra must be a table of captions, refused_captions lacks"):
        read_captions(run, "refused_captions")


@pytest.mark.parametrize(("held_out", "validation"), [(10, "none"), (0, "val")])
def test_extra_captions_are_used_for_training_but_not_for_metrics(run: Path, held_out: int, validation: str) -> None:
    plain, more = read_captions(run), read_captions(run, "generated")
    available = torch.ones(len(more.image_ids), dtype=torch.bool)
    train, metrics = split_captions(plain, ["train"], validation, held_out, available)
    more_train, more_metrics = split_captions(more, ["train"], validation, held_out, available)
    assert torch.equal(metrics, more_metrics) and torch.equal(train, more_train[: len(train)])
    assert not set(more.image[more_train].tolist()) & set(more.image[more_metrics].tolist())
    assert len(more_train) > 1.3 * len(train)


def test_a_captioner_is_evaluated(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap("train", run, "--output", tmp_path / "vse", *FIT) == 0
    ranked = ["--ranker", tmp_path / "vse", "--threads", 1]
    assert negcap("evaluate", run.parent / "m", run, "--output", tmp_path / "e", *ranked) == 0
    header = next(line for line in capsys.readouterr().out.splitlines() if "BLEU-1" in line)
    assert "images of test" in header and "mean rank" in header
    measures = json.loads((tmp_path / "e" / "measures.json").read_text())["measures"]
    assert set(measures) == {"people", "mle greedy", "mle beam", "mle sample", "gan greedy", "gan sample"}
    assert all(0.27 < row.get("discriminator", 0.5) < 0.74 for row in measures.values())
    assert measures["people"]["bleu_1"] > measures["mle sample"]["bleu_1"]
    one_each = ["--limit", 2, "--per-image", 1]
    assert negcap("evaluate", run.parent / "m", run, "--output", tmp_path / "few", *one_each) == 0
    measures = json.loads((tmp_path / "few" / "measures.json").read_text(), parse_constant=pytest.fail)["measures"]
    assert "self_bleu" not in measures["gan sample"]
