"""The verbs that make tables, one after the other: ingest, parse, lexicon, components, truth, balance, negatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.engine import provenance
from negcap.pipelines.engine.cluster import Executor
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.run import run_stage
from negcap.pipelines.engine.stage import Progress, ReduceStage, Stage

if TYPE_CHECKING:
    from negcap.pipelines.stages.ingest import Ingested

CONFIGS = {
    "ingest": "IngestConfig",
    "parse": "ParseConfig",
    "lexicon": "LexiconConfig",
    "components": "ComponentsConfig",
    "truth": "TruthConfig",
    "balance": "BalanceConfig",
    "negatives": "NegativesConfig",
}
VERBS = tuple(CONFIGS)
WITH_COMPONENTS = ("univse", "all")


def planned(run: Path, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The verbs that build a run: components only where a flag or preset of UniVSE asks, or the run has some already.

    No operator reads them.
    """
    asked = options.get("components") or options.get("simple") or options.get("preset") in WITH_COMPONENTS
    return tuple(verb for verb in VERBS if verb != "components" or asked or (run / verb).exists())


def configure(verb: str, options: Mapping[str, Any]) -> Any:
    """The config of a verb from the options that it knows and that are set (not None).

    A given norm list or model folder becomes a Path, so that its content counts and not its place. Raises ValueError
    for a value that breaks its rule, FileNotFoundError for a file that is not there.
    """
    type = getattr(import_module(f"negcap.pipelines.stages.{verb}"), CONFIGS[verb])
    known = {item.name for item in fields(type)}
    values = {name: value for name, value in options.items() if name in known and value is not None}
    if verb == "parse":
        folder = provenance.model_folder(values.get("spacy_model"))
        if "spacy_model" in values and Path(values["spacy_model"]).is_dir():
            values["spacy_model"] = folder.absolute()
        values["parser"] = provenance.parser(folder)
    if verb in ("lexicon", "components"):
        for name in ("concreteness", "attributes"):
            if name in values:
                values[name] = _existing(Path(values[name]), name)
    if verb == "negatives" and options.get("preset") is not None:
        if "operators" in values:
            raise ValueError("preset and operators exclude each other: give one of them")
        values["operators"] = import_module("negcap.augment.operators").preset(options["preset"])
    return type(**values)


def _existing(path: Path, name: str) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{name} must be a file, was: {path}")
    return path.absolute()


def ingest(source: str, run: Path, config: Any, progress: Progress, overwrite: bool) -> Ingested:
    """Read a source's captions into a run. See stages.ingest."""
    from negcap.pipelines.stages import ingest as stage

    return stage.ingest(source, run, config, metadata=provenance.package(), progress=progress, overwrite=overwrite)


def make(verb: str, run: Path, config: Any, executor: Executor, progress: Progress, overwrite: bool) -> dict[str, int]:
    """Run a later verb on what the verbs before it left in a run; the counters of its (last) stage. See run_stage."""
    module = import_module(f"negcap.pipelines.stages.{verb}")
    stages: tuple[Stage | ReduceStage, ...] = getattr(module, "STAGES", None) or (module.STAGE,)
    counts: dict[str, int] = {}
    for stage in stages:
        inputs = (stage.input, *stage.whole)
        metadata = provenance.of_stage(run, inputs, config)
        counts = run_stage(stage, run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
    return counts


def is_built(run: Path) -> bool:
    """Whether a run has been completed before, so that there may be nothing to do for workers."""
    try:
        manifest = read_manifest(run / "negatives")
    except ValueError:
        return False
    return manifest is not None and manifest.complete
