import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.engine.tables import verify
from negcap.pipelines.models.captioner.text import normalize
from negcap.pipelines.models.captions import read_captions, split_captions
from negcap.pipelines.stages.caption import CaptionConfig
from negcap.schemas.captions import CAPTION_REASONS, GENERATED, REFUSED_CAPTIONS
from negcap.schemas.fields import check
from tests.pipelines.models.trainer_world import write_world

SMALL = ["--word-dim", "32", "--hidden", "64", "--joint", "32", "--noise", "4", "--threads", "1", "--quiet"]
PHASES = ["--mle-epochs", "6", "--discriminator-epochs", "1", "--gan-epochs", "1", "--stages", "2"]
RATES = ["--supervised-rate", "1e-2", "--batch-size", "32", "--min-count", "2"]


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


def test_captions_have_their_origin_and_unique_ids(run: Path) -> None:
    made, refused, own = rows(run, "generated"), rows(run, "refused_captions"), rows(run, "captions")
    check(made, GENERATED)
    check(refused, REFUSED_CAPTIONS)
    images = Counter(made["image_id"].to_pylist())
    train = set(own.filter(pc.equal(own["split"], "train"))["image_id"].to_pylist())
    assert set(images) <= train and max(images.values()) == 3 and len(made) > 2 * len(train)
    assert set(made["language"].to_pylist()) == {"en"}
    assert set(made["origin"].to_pylist()) == {"generated"} and set(made["split"].to_pylist()) == {"train"}
    for row in made.to_pylist():
        assert (
            row["caption_id"].startswith(f"generated:{row['image_id']}:") and row["image"] == f"{row['image_id']}.png"
        )
        assert int(row["caption_id"].rpartition(":")[2]) < images[row["image_id"]]
    assert len(set(made["caption_id"].to_pylist())) == len(made)
    metadata = pq.read_schema(run / "generated" / "part-00000.parquet").metadata
    config = json.loads(metadata[b"config"])
    assert config["weights"].startswith("gan.safetensors sha256:") and config["seed"] == 0 and metadata[b"seed"] == b"0"


def test_captions_are_new_and_rejected_ones_have_a_reason(run: Path) -> None:
    made, refused, own = (rows(run, table) for table in ("generated", "refused_captions", "captions"))
    said = list(zip(made["image_id"].to_pylist(), normalize(made["text"].combine_chunks()).to_pylist(), strict=True))
    people = set(zip(own["image_id"].to_pylist(), normalize(own["text"].combine_chunks()).to_pylist(), strict=True))
    assert len(set(said)) == len(said) and not people & set(said)
    assert refused.num_rows and set(refused["reason"].to_pylist()) <= set(CAPTION_REASONS)
    counts = json.loads((run / "_manifests" / "generated.json").read_text())["counts"]
    reasons = {name.removeprefix("refused."): n for name, n in counts.items() if name.startswith("refused.")}
    assert reasons == Counter(refused["reason"].to_pylist()) and counts["captions"] == len(made)
    for row in refused.to_pylist():
        words = normalize(pa.array([row["text"]]))[0].as_py().split()
        if row["reason"] == "repeated_word":
            assert (
                any(a == b for a, b in zip(words, words[1:], strict=False))
                or row["text"].count(",") + row["text"].count(".") > 1
            )
        if row["reason"] == "own_caption":
            assert (row["image_id"], " ".join(words)) in people


def test_greedy_captions_of_an_image_repeat_each_other(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--decoding", "greedy", "--phase", "mle", "--table", "generated_greedy", "--split", "test,val")
    assert caption(run, *given) == 0
    assert "in generated_greedy; refused" in capsys.readouterr().out
    made, refused = rows(run, "generated_greedy"), rows(run, "refused_captions_greedy")
    assert set(made["split"].to_pylist()) == {"test", "val"} and "repeat" in refused["reason"].to_pylist()
    assert caption(run, "--decoding", "beam", "--table", "generated_beam", "--n", 1) == 0
    assert max(Counter(rows(run, "generated_beam")["image_id"].to_pylist()).values()) == 1


def test_the_same_command_keeps_the_result_and_another_seed_is_rejected(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shard = run / "generated" / "part-00000.parquet"
    before = shard.read_bytes()
    shard.write_bytes(before[:-10])
    assert caption(run) == 0 and shard.read_bytes() == before
    assert caption(run, "--seed", 1) == 2 and "seed was 0, is now 1" in capsys.readouterr().err
    assert caption(run, "--seed", 1, "--table", "generated_other") == 0
    texts = [set(rows(run, table)["text"].to_pylist()) for table in ("generated", "generated_other")]
    assert len(texts[0] - texts[1]) > len(texts[0]) / 2
    assert caption(run, "--split", "dev", "--table", "generated_none") == 2
    assert "splits must have images with features, have none: dev" in capsys.readouterr().err


@pytest.mark.dask
def test_worker_processes_write_the_same_bytes(run: Path) -> None:
    assert negcap("caption", run.parent / "m", run, "--workers", 1, "--table", "generated_dask", "--quiet") == 0
    assert rows(run, "generated_dask").equals(rows(run, "generated"))


def test_a_run_of_both_goes_through_every_later_stage(run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert negcap("enlarge", run, "--output", new, "--quiet") == 0
    both, own = rows(new, "captions"), rows(run, "captions")
    ids = both["image_id"].to_pylist()
    assert len(both) == len(own) + len(rows(run, "generated")) and len(set(both["caption_id"].to_pylist())) == len(both)
    assert (
        sum(a != b for a, b in zip(ids, ids[1:], strict=False)) == len(set(ids)) - 1
    )  # captions of an image are consecutive
    assert both.filter(pc.starts_with(both["caption_id"], "scenes:"))["text"].equals(own["text"])
    for verb in ("parse", "lexicon", "components", "truth", "balance", "negatives"):
        assert negcap(verb, new, "--scheduler", "synchronous", "--quiet") == 0
    negatives = rows(new, "negatives")
    made = negatives.filter(pc.starts_with(negatives["caption_id"], "generated:"))
    assert len(made) and set(made["origin"].to_pylist()) == {"generated"}
    assert not verify(new).problems and not verify(run).problems
    fit = ["--joint", 16, "--word-dim", 8, "--epochs", 1, "--threads", 1, "--quiet", "--model", "vse-c"]
    assert negcap("train", new, "--output", tmp_path / "vse", *fit) == 0
    assert negcap("enlarge", run, "--output", run) == 2


def test_grids_come_along_and_a_table_of_something_else_does_not(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rows(run, "features_grid").num_rows
    assert negcap("enlarge", run, "--output", tmp_path / "new", "--extra", "refused_captions") == 2
    assert "extra must be a table of captions" in capsys.readouterr().err
    assert negcap("enlarge", run, "--output", tmp_path / "new", "--quiet") == 0
    assert rows(tmp_path / "new", "features_grid").equals(rows(run, "features_grid"))
    assert negcap("train", run, "--extra", "refused_captions", "--output", tmp_path / "m", "--quiet") == 2
    assert "extra must be a table of captions, refused_captions lacks" in capsys.readouterr().err


def test_extra_captions_are_used_for_training_but_not_for_metrics(run: Path, tmp_path: Path) -> None:
    plain, more = read_captions(run), read_captions(run, "generated")
    there = torch.ones(len(more.image_ids), dtype=torch.bool)
    for held_out, validation in ((10, "none"), (0, "val")):
        old = split_captions(plain, ["train"], validation, held_out, there)
        new = split_captions(more, ["train"], validation, held_out, there)
        assert torch.equal(old[1], new[1]) and torch.equal(old[0], new[0][: len(old[0])])
        assert not set(more.image[new[0]].tolist()) & set(more.image[new[1]].tolist())
        assert len(new[0]) > 1.3 * len(old[0])
    fit = ["--joint", 16, "--word-dim", 8, "--epochs", 1, "--threads", 1]
    assert negcap("train", run, "--extra", "generated", "--output", tmp_path / "m", *fit, "--quiet") == 0
    assert "generated" in json.loads((tmp_path / "m" / "config.json").read_text())["inputs"]
    assert negcap("train", run, "--output", tmp_path / "m", *fit, "--quiet") == 2


@pytest.mark.usefixtures("drawn")
def test_assess_command(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["--joint", 16, "--word-dim", 8, "--epochs", 1, "--threads", 1, "--quiet"]
    assert negcap("train", run, "--output", tmp_path / "vse", *fit) == 0
    given = ["--judge", tmp_path / "vse", "--images", run / "images", "--shown", 3, "--threads", 1]
    assert negcap("assess", run.parent / "m", run, "--output", tmp_path / "e", *given) == 0
    shown = capsys.readouterr().out
    assert "| 9 images of test | BLEU-1 |" in shown and "| mean rank |" in shown and "| gan sample |" in shown
    measures = json.loads((tmp_path / "e" / "measures.json").read_text())["measures"]
    assert set(measures) == {"people", "mle greedy", "mle beam", "mle sample", "gan greedy", "gan sample"}
    assert all(
        0 <= measures[way]["novel"] <= 100 and 0.27 < measures[way].get("discriminator", 0.5) < 0.74 for way in measures
    )
    assert measures["people"]["bleu_1"] > measures["mle sample"]["bleu_1"]
    assert (tmp_path / "e" / "samples.png").read_bytes()[:4] == b"\x89PNG"
    few = ["--limit", 2, "--n", 1, "--images", run / "images"]
    assert negcap("assess", run.parent / "m", run, "--output", tmp_path / "few", *few) == 0
    measures = json.loads((tmp_path / "few" / "measures.json").read_text(), parse_constant=pytest.fail)["measures"]
    assert "self_bleu" not in measures["gan sample"]
    capsys.readouterr()
    assert negcap("assess", run.parent / "m", run, "--split", "dev") == 2
    assert "split must be one of 'test', 'train', 'val' in captions, was: 'dev'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given, message",
    [
        ({"n": 0}, "n must be >= 1, was: 0"),
        ({"decoding": "top"}, "decoding must be one of sample, greedy, beam, was: top"),
        ({"table": "captions"}, "table must be generated, or generated_ and a name of a-z and 0-9, was: captions"),
    ],
)
def test_bad_config(given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CaptionConfig(Path("gan.safetensors"), **given)


@pytest.mark.slow
def test_captions_that_are_written_tell_images_apart(tmp_path: Path) -> None:
    """The whole path in a world whose captions follow from the features: people's captions find their image."""
    run, model, judge = tmp_path / "run", tmp_path / "m", tmp_path / "vse"
    write_world(run, (("train", 150), ("val", 20), ("test", 40)))
    phases = ["--mle-epochs", 20, "--discriminator-epochs", 2, "--gan-epochs", 2, "--stages", 4]
    nets = ["--word-dim", 16, "--hidden", 48, "--joint", 16, "--noise", 4, "--words", 12, "--threads", 1, "--quiet"]
    assert negcap("captioner", run, "--output", model, *phases, *nets, *RATES) == 0
    assert caption(run) == 0
    fit = ["--epochs", 8, "--learning-rate", "1e-2", "--batch-size", 32, "--min-count", 2, "--threads", 1, "--quiet"]
    assert negcap("train", run, "--output", judge, "--joint", 32, "--word-dim", 16, *fit) == 0
    assert negcap("assess", model, run, "--judge", judge, "--threads", 1) == 0
    measures = json.loads((model / "evaluation" / "measures.json").read_text())["measures"]
    assert measures["gan sample"]["distinct_2"] > 2 * measures["mle greedy"]["distinct_2"]
    ranks = {way: measures[way]["t2i mean rank"] for way in ("people", "mle sample", "gan sample")}
    assert ranks["people"] < 3 and max(ranks.values()) < 17.5  # of 40 images; chance: 20.5
