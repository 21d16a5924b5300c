"""Paths and URLs that users give."""

import os
import pickle
from pathlib import Path

import click
import pytest

from negcap import build, read
from negcap.pipelines.cli import negcap
from negcap.pipelines.cli.options import Location
from negcap.pipelines.engine.places import local_path, place
from tests.conftest import SAMPLE

PATHS = ("FILE", "FOLDER", "DIR", "RUN", "MODEL", "NEW")
PASSWORD = "must be a s3 URL without a password"


@pytest.mark.parametrize(
    "url", ["http://host/run", "zip://run::run.zip", "file://host/run", "s3://bucket/run::x", "s3x://b"]
)
def test_an_output_that_cannot_be_written_is_refused_and_nothing_is_written(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="output must be .*, was"):
        build(SAMPLE, url, scheduler="synchronous")
    with pytest.raises(ValueError, match="run must be "):
        read(url)
    assert not os.listdir()


@pytest.mark.parametrize(
    "given, said",
    [
        ("s3://key:secret@bucket/run", PASSWORD),
        ("s3://bucket/run?versionId=1", PASSWORD),
        ("s3://", "path must name a folder, was: s3://$"),
        ("s3://bucket/../run", "path must name a folder, was: s3://bucket/../run"),
    ],
)
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


ABFS = "abfs://container@account.dfs.core.windows.net/run"
URLS = {
    "s3://bucket/run": ["s3://bucket/run", "S3://bucket//run/", Path("s3://bucket/run")],
    "memory://run": ["memory://run"],
    "hdfs://name:9000/data/run": ["hdfs://name:9000/data/run"],
    "hdfs://default/data/run": ["hdfs:///data/run"],
    ABFS: [ABFS],
}


@pytest.mark.parametrize("url, given", [(url, given) for url, forms in URLS.items() for given in forms])
def test_urls_of_stores(given, url):
    path = place(given, "output")
    assert str(path) == url and place(path) is path
    assert str(path / "captions" / "part-00000.parquet") == f"{url}/captions/part-00000.parquet"
    assert path.parent / path.name == path and pickle.loads(pickle.dumps(path)) == path
    assert str((path / "a" / "b").relative_to(path)) == "a/b"
    with pytest.raises(ValueError, match=f"{url} must be on a local disk"):
        open(path)
    with pytest.raises(ValueError, match=f"output must be on a local disk, was the URL: {url}"):
        local_path(path, "output")
