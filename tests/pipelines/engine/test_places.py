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
from tests.cases import cases_of
from tests.conftest import SAMPLE

PATHS = ("FILE", "FOLDER", "DIR", "RUN", "MODEL", "NEW")
CASES = cases_of(__file__)["places"]


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
