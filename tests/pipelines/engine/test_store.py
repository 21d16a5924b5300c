"""Where runs lie: paths and URLs that users give, and runs on an S3 server on the loopback."""

import os
import pickle
import platform
from pathlib import Path
from typing import Any

import click
import pytest

from negcap import build, read
from negcap.pipelines.cli import main, negcap
from negcap.pipelines.cli.options import Location
from negcap.pipelines.engine.lock import LOCK
from negcap.pipelines.engine.output import Output
from negcap.pipelines.engine.places import local_path, place
from negcap.pipelines.engine.storage import write_atomically
from tests.cases import cases_of
from tests.conftest import HERE, SAMPLE
from tests.pipelines.models.worlds import write_world
from tests.tables import content

PATHS = ("FILE", "FOLDER", "DIR", "RUN", "MODEL", "NEW")
CASES = cases_of(__file__)["places"]
BUILD = ["build", str(SAMPLE), "--limit", "6", "--set", "shard_size=15", "--set", "lexicon=own", *HERE, "--output"]
PUBLISH = ["--format", "coco", "--license", "x", "--allow-blind", "--quiet", "--output"]


@pytest.mark.parametrize("url", CASES["no_outputs"])
def test_an_output_that_cannot_be_written_is_refused_and_nothing_is_written(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="output must be .*, was"):
        build(SAMPLE, url, scheduler="synchronous")
    with pytest.raises(ValueError, match="run must be "):
        read(url)
    assert not os.listdir()


@pytest.mark.parametrize("given, said", CASES["refused"])
def test_stores_without_a_folder_or_with_passwords_which_are_not_shown(given, said):
    with pytest.raises(ValueError, match=said) as refused:
        place(given)
    assert "secret" not in str(refused.value)


def test_every_path_of_every_command_is_of_the_type_that_refuses_urls():
    for verb in negcap.commands:
        for parameter in negcap.commands[verb].params:
            if isinstance(parameter.type, click.Path) or parameter.metavar in PATHS:
                assert isinstance(parameter.type, Location), (verb, parameter.name)


def test_paths_and_file_urls():
    for given, path in CASES["local"].items():
        assert local_path(given) == place(given) == Path(path)
    assert place(Path("outputs/run")) == Path("outputs/run")


@pytest.mark.parametrize("url, given", [(url, given) for url, forms in CASES["urls"].items() for given in forms])
def test_urls_of_stores(given, url):
    # A path that was joined has lost a slash of its URL.
    path = place(Path(given) if given == "s3:/bucket/run" else given, "output")
    assert str(path) == url and place(path) is path
    assert str(path / "captions" / "part-00000.parquet") == f"{url}/captions/part-00000.parquet"
    assert path.parent / path.name == path and pickle.loads(pickle.dumps(path)) == path
    assert str((path / "a" / "b").relative_to(path)) == "a/b"
    with pytest.raises(ValueError, match=f"{url} must be on a local disk"):
        open(path)
    with pytest.raises(ValueError, match=f"output must be on a local disk, was the URL: {url}"):
        local_path(path, "output")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build on a local disk."""
    run = tmp_path_factory.mktemp("local") / "run"
    assert main([*BUILD, str(run)]) == 0
    return run


@pytest.fixture(scope="module")
def remote(bucket: str) -> Path:
    """The same on S3, where it stopped in a stage, left as by a kill, and was run again."""
    run = place(f"{bucket}/run")
    write = Output.write

    def stopped(output: Output, index: int, *arguments: Any) -> Any:
        if index and output.folder.name == "parses":
            raise KeyboardInterrupt
        return write(output, index, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Output, "write", stopped)
        assert main([*BUILD, str(run)]) == 130
    assert (run / "parses" / "part-00000.parquet").exists() and not (run / "negatives").exists()
    (run / LOCK).write_bytes(f"anna, process {2**22 + 1} on {platform.node()}".encode())
    assert main([*BUILD, str(run)]) == 0
    return run


def test_a_run_on_s3_that_was_stopped_is_completed_and_read_as_a_local_one(local, remote, capsys):
    assert content(remote) == content(local)
    capsys.readouterr()
    for command in (["info", "--verify"], ["show", "--n", "3", "--json"]):
        of_local, of_remote = ((main([*command, str(run)]), capsys.readouterr().out) for run in (local, remote))
        assert of_local == of_remote and of_local[0] == 0


def test_a_run_on_s3_is_published_to_s3(local, remote, tmp_path, bucket):
    published = place(f"{bucket}/published")
    write_atomically(published / "annotations" / "old.json", b"{}")
    write_atomically(published / "SHA256SUMS", b"0  annotations/old.json\n")
    assert main(["publish", str(remote), *PUBLISH, str(published)]) == 2  # it is not empty
    assert main(["publish", str(remote), "--overwrite", *PUBLISH, str(published)]) == 0
    assert main(["publish", str(local), *PUBLISH, str(tmp_path / "published")]) == 0
    assert content(published) == content(tmp_path / "published") != {}


def test_a_damaged_object_is_named_and_made_again(local, remote, capsys):
    shard = remote / "negatives" / "part-00001.parquet"
    before = content(remote)
    write_atomically(shard, shard.read_bytes()[:-9])
    assert main(["show", str(remote), "--n", "1000"]) == 2
    assert f"{shard} is damaged: its bytes are not those that were written" in capsys.readouterr().err
    assert main(["build", "--output", str(remote), "--only", "negatives", *HERE]) == 0
    assert content(remote) == before


def test_a_model_is_trained_from_s3(bucket, tmp_path):
    trained = []
    for number, run in enumerate((tmp_path / "run", place(f"{bucket}/world"))):
        write_world(run, (("train", 12), ("test", 4)))
        options = ["--epochs", "1", "--joint", "8", "--set", "validation_images=4", "--quiet"]
        assert main(["train", str(run), "--output", str(tmp_path / str(number)), *options]) == 0
        trained.append((tmp_path / str(number) / "last.safetensors").read_bytes())
    assert trained[0] == trained[1]
    assert list(Path(os.environ["XDG_CACHE_HOME"]).glob("negcap/*/encoded/features-*"))


@pytest.mark.parametrize("url, said", CASES["missing"])
def test_a_missing_bucket_or_library_is_named(url, said, bucket, capsys):
    assert main([*BUILD, url]) == 2
    assert capsys.readouterr().err == f"negcap: {said}\n"
