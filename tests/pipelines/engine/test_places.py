import os
import pickle
from pathlib import Path

import click
import pytest

from negcap import build, read
from negcap.pipelines.cli import main, negcap
from negcap.pipelines.cli.options import Location
from negcap.pipelines.engine.places import local_path, place
from tests.conftest import SAMPLE


@pytest.mark.parametrize(
    "url", ["http://host/run", "zip://run::run.zip", "file://host/run", "s3://bucket/run::x", "s3x://b"]
)
def test_an_output_that_cannot_be_written_is_refused_in_one_line_and_nothing_is_written(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build", str(SAMPLE), "--output", url, "--scheduler", "synchronous"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("negcap build: --output must be ") and said.endswith(f": {url}\n") and said.count("\n") == 1
    with pytest.raises(ValueError, match="output must be .*, was"):
        build(SAMPLE, url, scheduler="synchronous")
    with pytest.raises(ValueError, match="run must be "):
        read(url)
    assert not os.listdir()


PATHS = ("FILE", "FOLDER", "DIR", "RUN", "MODEL", "NEW")
PASSWORD = "must be a s3 URL without a password"


@pytest.mark.parametrize(
    "given, said",
    [
        ("s3://key:secret@bucket/run", PASSWORD),
        ("s3://bucket/run?versionId=1", PASSWORD),
        ("s3://", "path must name a folder, was: s3://$"),
        ("s3://bucket/../run", "path must name a folder, was: s3://bucket/../run"),
    ],
)
def test_stores_without_a_folder_or_with_passwords_which_are_not_shown(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        place(given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("command", ["train", "captioner"])
def test_models_are_written_to_a_local_disk(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "memory://run", "--output", "memory://model"]) == 2
    said = f"negcap {command}: --output must be on a local disk, was the URL: memory://model\n"
    assert capsys.readouterr().err == said


def test_every_path_of_every_command_is_of_the_type_that_refuses_urls() -> None:
    for verb in negcap.commands:
        for parameter in negcap.commands[verb].params:
            if isinstance(parameter.type, click.Path) or parameter.metavar in PATHS:
                assert isinstance(parameter.type, Location), (verb, parameter.name)


def test_paths_and_file_urls() -> None:
    for given, path in {
        "outputs/run": "outputs/run",
        "a:b": "a:b",
        "./s3:/run": "s3:/run",
        "c:/run": "c:/run",
        "file:///data/a%20run": "/data/a run",
        "file://localhost/data/run": "/data/run",
        Path("outputs/run"): "outputs/run",
    }.items():
        assert local_path(given) == place(given) == Path(path)


@pytest.mark.parametrize(
    "given, url",
    [
        ("s3://bucket/run", "s3://bucket/run"),
        ("S3://bucket//run/", "s3://bucket/run"),
        (Path("s3://bucket/run"), "s3://bucket/run"),
        ("memory://run", "memory://run"),
        ("hdfs://name:9000/data/run", "hdfs://name:9000/data/run"),
        ("hdfs:///data/run", "hdfs://default/data/run"),
        ("abfs://container@account.dfs.core.windows.net/run", "abfs://container@account.dfs.core.windows.net/run"),
    ],
)
def test_urls_of_stores(given: str | Path, url: str) -> None:
    found = place(given, "output")
    assert str(found) == url and place(found) is found
    assert str(found / "captions" / "part-00000.parquet") == f"{url}/captions/part-00000.parquet"
    assert found.parent / found.name == found and pickle.loads(pickle.dumps(found)) == found
    assert str((found / "a" / "b").relative_to(found)) == "a/b"
    with pytest.raises(ValueError, match=f"{url} must be on a local disk"):
        open(found)
    with pytest.raises(ValueError, match=f"output must be on a local disk, was the URL: {url}"):
        local_path(found, "output")
