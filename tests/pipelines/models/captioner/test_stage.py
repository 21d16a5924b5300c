import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.models.captioner.generate import normalize
from negcap.pipelines.models.data import read_captions, split_captions
from negcap.schemas.captions import CAPTION_REASONS, GENERATED, REFUSED_CAPTIONS
from negcap.schemas.fields import check
from tests.docs.pages import FOLDER, snippet_with

SMALL = "--set word_dim=32 --set hidden=64 --set joint=32 --set noise=4 --threads 1 --quiet".split()
PHASES = "--mle-epochs 6 --set discriminator_epochs=1 --gan-epochs 1 --set stages=2".split()
FIT = ["--joint", "16", "--set", "word_dim=8", "--epochs", "1", "--threads", "1", "--quiet"]
RATES = "--set supervised_rate=1e-2 --set batch_size=32 --set min_count=2".split()


def negcap(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captioner") / "run"
    assert negcap("scenes", "--output", folder, "--images", 60, "--quiet") == 0
    assert negcap("captioner", folder, "--output", folder.parent / "m", *SMALL, *PHASES, *RATES) == 0
    assert caption(folder) == 0
    return folder


def caption(run: Path, *given: object) -> int:
    return negcap("caption", run.parent / "m", run, "--scheduler", "synchronous", "--quiet", *given)


def rows(run: Path, table: str) -> pa.Table:
    return pq.read_table(run / table)


def test_captions_are_new_and_rejected_ones_have_a_reason(run: Path) -> None:
    made, refused, own = rows(run, "generated"), rows(run, "refused_captions"), rows(run, "captions")
    check(made, GENERATED)
    check(refused, REFUSED_CAPTIONS)
    images = Counter(made["image_id"].to_pylist())
    train = set(own.filter(pc.equal(own["split"], "train"))["image_id"].to_pylist())
    assert set(images) <= train and max(images.values()) == 3 and len(made) > 2 * len(train)
    for column, value in (("language", "en"), ("origin", "generated"), ("split", "train")):
        assert set(made[column].to_pylist()) == {value}
    numbered = [f"generated:{image}:{n}" for image, count in images.items() for n in range(count)]
    assert made["caption_id"].to_pylist() == numbered
    assert made["image"].to_pylist() == [f"{image}.png" for image in made["image_id"].to_pylist()]
    said, people = (
        list(zip(t["image_id"].to_pylist(), normalize(t["text"].combine_chunks()).to_pylist(), strict=True))
        for t in (made, own)
    )
    assert len(set(said)) == len(said) and not set(people) & set(said)
    assert refused.num_rows and set(refused["reason"].to_pylist()) <= set(CAPTION_REASONS)
    counts = json.loads((run / "_manifests" / "generated.json").read_text())["counts"]
    reasons = {name.removeprefix("refused."): n for name, n in counts.items() if name.startswith("refused.")}
    assert reasons == Counter(refused["reason"].to_pylist()) and counts["captions"] == len(made)
    metadata = pq.read_schema(run / "generated" / "part-00000.parquet").metadata
    config = json.loads(metadata[b"config"])
    assert config["weights"].startswith("gan.safetensors sha256:") and config["seed"] == 0 and metadata[b"seed"] == b"0"


def test_each_way_of_writing_and_the_same_command_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--decoding", "greedy", "--phase", "mle", "--table", "generated_greedy", "--split", "test,val")
    assert caption(run, *given) == 0
    assert "in generated_greedy; refused" in capsys.readouterr().out
    made, refused = rows(run, "generated_greedy"), rows(run, "refused_captions_greedy")
    assert set(made["split"].to_pylist()) == {"test", "val"} and "repeat" in refused["reason"].to_pylist()
    assert caption(run, "--decoding", "beam", "--table", "generated_beam", "--per-image", 1) == 0
    assert max(Counter(rows(run, "generated_beam")["image_id"].to_pylist()).values()) == 1
    shard = run / "generated" / "part-00000.parquet"
    before = shard.read_bytes()
    shard.write_bytes(before[:-10])
    assert caption(run) == 0 and shard.read_bytes() == before
    assert caption(run, "--seed", 1, "--table", "generated_other") == 0
    texts = [set(rows(run, table)["text"].to_pylist()) for table in ("generated", "generated_other")]
    assert len(texts[0] - texts[1]) > len(texts[0]) / 2
    for wrong, message in (
        (("--seed", 1), "seed was 0, is now 1"),
        (("--split", "dev", "--table", "generated_none"), "splits must have images with features, have none: dev"),
        (("--decoding", "top"), "decoding must be one of sample, greedy, beam, was: top"),
        (("--table", "captions"), "table must be generated, or generated_ and a name of a-z and 0-9, was: captions"),
    ):
        assert caption(run, *wrong) == 2 and message in capsys.readouterr().err


@pytest.mark.dask
def test_worker_processes_write_the_same_bytes(run: Path) -> None:
    assert negcap("caption", run.parent / "m", run, "--workers", 1, "--table", "generated_dask", "--quiet") == 0
    assert rows(run, "generated_dask").equals(rows(run, "generated"))


def test_a_run_of_both_is_made_as_the_page_shows(run: Path, tmp_path: Path) -> None:
    page = snippet_with("def enlarge", FOLDER / "how-to" / "captioner.md")
    few = {"limit": 10, "operators": "noun", "lexicon": "reference", "scheduler": "synchronous"}
    page.enlarge(run, tmp_path / "new", **few)
    kept, negatives = rows(tmp_path / "new", "source_columns"), rows(tmp_path / "new", "negatives")
    writer = dict(zip(kept["caption_id"].to_pylist(), kept["writer"].to_pylist(), strict=True))
    assert {writer[name] for name in negatives["caption_id"].to_pylist()} == {"person", "captioner"}
    images, every = (set(table["image_id"].to_pylist()) for table in (kept, rows(run, "captions")))
    assert len(images) == 10 and images < every


def test_only_a_table_of_captions_is_extra(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap("train", run, "--output", tmp_path / "m", "--set", "extra=refused_captions", "--quiet") == 2
    assert "extra must be a table of captions, refused_captions lacks" in capsys.readouterr().err


def test_extra_captions_are_used_for_training_but_not_for_metrics(run: Path) -> None:
    plain, more = read_captions(run), read_captions(run, "generated")
    there = torch.ones(len(more.image_ids), dtype=torch.bool)
    for held_out, validation in ((10, "none"), (0, "val")):
        old, new = (split_captions(of, ["train"], validation, held_out, there) for of in (plain, more))
        assert torch.equal(old[1], new[1]) and torch.equal(old[0], new[0][: len(old[0])])
        assert not set(more.image[new[0]].tolist()) & set(more.image[new[1]].tolist())
        assert len(new[0]) > 1.3 * len(old[0])


@pytest.mark.usefixtures("drawn")
def test_a_captioner_is_evaluated(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap("train", run, "--output", tmp_path / "vse", *FIT) == 0
    given = ["--ranker", tmp_path / "vse", "--threads", 1]
    assert negcap("evaluate", run.parent / "m", run, "--output", tmp_path / "e", *given) == 0
    shown = capsys.readouterr().out
    assert "| 9 images of test | BLEU-1 |" in shown and "| mean rank |" in shown and "| gan sample |" in shown
    measures = json.loads((tmp_path / "e" / "measures.json").read_text())["measures"]
    assert set(measures) == {"people", "mle greedy", "mle beam", "mle sample", "gan greedy", "gan sample"}
    assert all(0.27 < its.get("discriminator", 0.5) < 0.74 for its in measures.values())
    assert measures["people"]["bleu_1"] > measures["mle sample"]["bleu_1"]
    few = ["--limit", 2, "--per-image", 1]
    assert negcap("evaluate", run.parent / "m", run, "--output", tmp_path / "few", *few) == 0
    measures = json.loads((tmp_path / "few" / "measures.json").read_text(), parse_constant=pytest.fail)["measures"]
    assert "self_bleu" not in measures["gan sample"]
    capsys.readouterr()
    assert negcap("evaluate", run.parent / "m", run, "--split", "dev") == 2
    assert "split must be one of 'test', 'train', 'val' in captions, was: 'dev'" in capsys.readouterr().err
