"""Stage parse: captions -> parses (tokens and noun chunks), made once and read by all later stages."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ...augment.data import data_path
from ...augment.language.parse import load_pipeline, parse_table
from ...augment.settings import Settings, SpacyModel
from ...schemas.captions import PARSES
from ..engine.manifest import hash_path
from ..engine.stage import Stage, StageResult
from ..engine.storage import Json

NEEDED = ("tagger", "parser")


class ParseConfig(Settings):
    """Which parser is used."""

    spacy_model: SpacyModel = None
    parser: str = ""  # its name and version, part of shard keys


def parse(captions: pa.Table, config: ParseConfig) -> StageResult:
    """Parse the English captions of a shard; the function of the stage. Counters: captions, `skipped.<language>`."""
    # The parser is one of English: other captions stay in the run, for training and evaluation, without a parse.
    english = captions.filter(pc.equal(captions["language"], "en"))
    counts = Counter({"captions": english.num_rows})
    for language in captions["language"].to_pylist():
        if language != "en":
            counts[f"skipped.{language}"] += 1
    return StageResult({"parses": parse_table(english, config.spacy_model)}, counts)


def model_folder(spacy_model: str | None = None) -> Path:
    """The folder of a spaCy pipeline, a package or folder (None: the shipped one), found without importing spaCy.
    Raises ValueError if there is none, or if it lacks a component that is needed.
    """
    if spacy_model is None:
        folder = data_path("english_parser")
    else:
        folder = Path(spacy_model)
        package = find_spec(spacy_model) if spacy_model.isidentifier() else None
        if package is not None and package.origin is not None:
            folder = Path(package.origin).parent
    meta = _read_meta(folder)
    if meta is None:
        raise ValueError(
            f"spacy model must be an installed package or a folder with meta.json, was: {spacy_model or folder}"
        )
    missing = [name for name in NEEDED if name not in meta.get("pipeline", NEEDED)]
    if missing:
        raise ValueError(f"spacy model {spacy_model or folder} must have {' and '.join(NEEDED)}, lacks: {missing}")
    return folder


def model_version(folder: Path) -> str:
    """Name, version and 16 digits of the hash of the spaCy pipeline in a folder: `en_core_web_sm-3.8.0 sha256:…`."""
    meta = _read_meta(folder) or {}
    return f"{meta.get('lang')}_{meta.get('name')}-{meta.get('version')} sha256:{hash_path(folder)[:16]}"


def _read_meta(folder: Path) -> Mapping[str, Json] | None:
    """The description that a spaCy pipeline has in its meta.json; None if the file holds no JSON object."""
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return meta if isinstance(meta, dict) else None


def free_parser() -> None:
    """Free the loaded pipeline, some 20 MB, which no later stage of a build needs."""
    load_pipeline.cache_clear()
    gc.collect()


COLUMNS = ("caption_id", "image_id", "split", "language", "origin", "text")
STAGE = Stage("parse", "captions", {"parses": PARSES}, parse, COLUMNS, free=free_parser)
