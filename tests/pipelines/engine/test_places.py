import os
from pathlib import Path

import click
import pytest

from negcap import build, read
from negcap.pipelines.cli import main, negcap
from negcap.pipelines.cli.options import LocalPath
from negcap.pipelines.engine.places import local_path
from tests.conftest import SAMPLE

URLS = (
    "s3://bucket/run",
    "gs://bucket/run",
    "memory://run",
    "http://host/run",
    "zip://run::run.zip",
    "file://host/run",
)


@pytest.mark.parametrize("url", URLS)
def test_an_output_elsewhere_is_refused_in_one_line_and_nothing_is_written(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build", str(SAMPLE), "--output", url, "--scheduler", "synchronous"]) == 2
    assert capsys.readouterr().err == f"negcap build: --output must be on a local disk, was the URL: {url}\n"
    with pytest.raises(ValueError, match="output must be on a local disk, was the URL"):
        build(SAMPLE, url, scheduler="synchronous")
    with pytest.raises(ValueError, match="run must be on a local disk"):
        read(url)
    assert not os.listdir()


@pytest.mark.parametrize("verb", sorted(negcap.commands))
def test_every_path_of_every_command_is_of_the_type_that_refuses_urls(verb: str) -> None:
    for parameter in negcap.commands[verb].params:
        assert not isinstance(parameter.type, click.Path) or isinstance(parameter.type, LocalPath), parameter.name
        if parameter.metavar in ("FILE", "FOLDER", "DIR", "RUN", "MODEL", "NEW"):
            assert isinstance(parameter.type, LocalPath), parameter.name


@pytest.mark.parametrize(
    "given, path",
    [
        ("outputs/run", "outputs/run"),
        ("a:b", "a:b"),
        ("./s3:/run", "s3:/run"),
        ("c:/run", "c:/run"),
        ("file:///data/a%20run", "/data/a run"),
        ("file://localhost/data/run", "/data/run"),
        (Path("outputs/run"), "outputs/run"),
    ],
)
def test_paths_and_file_urls(given: str | Path, path: str) -> None:
    assert local_path(given) == Path(path)


def test_a_path_made_of_a_url_is_that_url() -> None:
    with pytest.raises(ValueError, match="output must be on a local disk, was the URL: s3:/bucket/run"):
        local_path(Path("s3://bucket/run"), "output")
