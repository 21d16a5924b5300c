"""Run the stages of a build in order: ingest, parse, lexicon, components, truth, balance, negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field

from ...augment.data import data_path
from ...augment.operators import OPERATORS, operators_of_preset
from ...augment.recovery import Judging
from ...augment.settings import Settings, given_only
from ...schemas.messages import did_you_mean
from ..engine.cluster import Distributed
from ..engine.lock import locked
from ..engine.manifest import read_manifest
from ..engine.places import place
from ..engine.run import Execution, run_stage
from ..engine.stage import ReduceStage, Stage, run_in_memory
from ..engine.tables import has_table
from ..tables.corpus import load_cloze
from ..tables.warnings import caption_warnings
from . import balance, components, lexicon, negatives, parse, truth
from . import ingest as ingestion


class LexiconSource(Settings):
    """Where the tables of LEXICON_VERBS come from."""

    lexicon: str = Field(
        "auto",
        description="vocabulary from which replacements are taken: own: counted on these captions; reference: the "
        "built-in counts; the folder of another run; auto: own plus the built-in counts with the weight of 5,000 "
        "captions (less if these are far from everyday photos), or own alone if a setting says how to count",
    )


class BuildConfig(LexiconSource):
    """What a build makes beside the configs of its stages."""

    preset: Literal["vse-c", "univse", "negation", "benchmark", "all", "vse-c-paper", "univse-paper"] | None = Field(
        None,
        description="set of operators: vse-c (noun, numeral, shuffle, preposition), univse (object, attribute, "
        "relation), negation, benchmark (for test sets) or all; -paper: sampled uniformly and unchecked, as in the "
        "paper; none: vse-c",
    )
    components: bool = Field(False, description="also make the tables of scene graph components")


class Verb(NamedTuple):
    """A step of a build, as users name it: its settings and its stages; `ingest` has none, as it reads no table."""

    config: type[Settings]
    stages: tuple[Stage | ReduceStage, ...]


VERBS_OF_BUILD = {
    "ingest": Verb(ingestion.IngestConfig, ()),
    "parse": Verb(parse.ParseConfig, (parse.STAGE,)),
    "lexicon": Verb(lexicon.LexiconConfig, (lexicon.STAGE,)),
    "components": Verb(components.ComponentsConfig, components.STAGES),
    "truth": Verb(truth.TruthConfig, (truth.STAGE,)),
    "balance": Verb(balance.BalanceConfig, (balance.STAGE,)),
    "negatives": Verb(negatives.NegativesConfig, (negatives.STAGE,)),
}
VERBS = tuple(VERBS_OF_BUILD)
CONFIGS = {name: verb.config for name, verb in VERBS_OF_BUILD.items()}
WITH_COMPONENTS = ("univse", "univse-paper", "all")
# The tables that can be taken from another run or from the reference, and the options for counting them instead.
LEXICON_VERBS = ("lexicon", "truth", "balance")
COUNTING_OPTIONS = ("attributes", "concreteness", "min_count", "balance_sample", "min_concreteness", "truth_sample")

# Settings of all stages of a build together, by name; None counts as not given.
Options = Mapping[str, Any]
OWN = "own"
REFERENCE = "reference"
AUTO = "auto"


def planned_verbs(run: Path, options: Options) -> tuple[str, ...]:
    """The stages of a build; `components`, which no operator reads, only if an option asks for it or the run has it."""
    build = BuildConfig.of(options)
    asked = build.components or build.preset in WITH_COMPONENTS or components.ComponentsConfig.of(options).simple
    return tuple(verb for verb in VERBS if verb != "components" or asked or (run / verb).exists())


def configure(verb: str, options: Options) -> Any:
    """Make the config of a stage (`verb`), from those options that it has and that are not None.

    Some options stand for others: `lexicon` says where the tables of LEXICON_VERBS come from (see LexiconSource),
    `preset` which operators are used. Names of files and of folders of models become an absolute Path, so that tables
    are made again if the content of a file is another one, wherever it lies.

    Raises ValueError for an invalid option or model, FileNotFoundError for a file or table that does not exist.
    """
    values = given_only({name: options.get(name) for name in CONFIGS[verb].model_fields})
    if verb == "parse":
        # The name of an installed package stays a name; the folder of a model becomes a Path.
        folder = parse.model_folder(values.get("spacy_model"))
        if "spacy_model" in values and Path(values["spacy_model"]).is_dir():
            values["spacy_model"] = folder.absolute()
        values["parser"] = parse.model_version(folder)
    if verb in ("lexicon", "components"):
        for name in ("concreteness", "attributes"):  # files with a list of words
            if name in values:
                if not Path(values[name]).is_file():
                    raise FileNotFoundError(f"{name} must be a file, was: {values[name]}")
                values[name] = Path(values[name]).absolute()
    if verb in LEXICON_VERBS:
        values = _with_lexicon(verb, values, options)
    if verb == "negatives" and options.get("preset") is not None:
        if "operators" in values:
            raise ValueError("preset and operators exclude each other: give one of them")
        values["operators"] = operators_of_preset(options["preset"])
    if "cloze" in values:
        values["cloze"] = Path(values["cloze"]).absolute()
        load_cloze(values["cloze"])  # only to find an invalid model before any stage runs: raises ValueError
    return CONFIGS[verb](**values)


def _with_lexicon(verb: str, values: Options, options: Options) -> dict[str, Any]:
    """Add to the values for a config of one of LEXICON_VERBS where its table comes from.

    `lexicon` becomes the path of a given table, or is left out for own counts. `backoff` becomes the path of the
    reference table that own counts are blended with: by default (`auto`), unless an option says how to count.

    Args:
        verb: lexicon, truth or balance.
        values: of the config so far; its `lexicon` is what the user has given.
        options: of all stages.
    """
    values = dict(values)
    source = values.pop("lexicon", AUTO)
    counting = next((name for name in COUNTING_OPTIONS if options.get(name) is not None), None)
    if source == AUTO and counting is None:
        values["backoff"] = _path_of_given_table(REFERENCE, verb)
    elif source not in (AUTO, OWN):
        if counting:
            raise ValueError(f"{counting} needs lexicon own: a given lexicon is used as it is")
        values = {"lexicon": _path_of_given_table(source, verb)}  # nothing is counted, so no other setting matters
    # Fitting takes long: only the kinds of words that the chosen operators will draw are fitted.
    if verb == "balance" and "lexicon" not in values:
        chosen = configure("negatives", {name: options.get(name) for name in ("operators", "preset")})
        values["kinds"] = tuple(sorted({kind for name in chosen.operators for kind in OPERATORS[name].traits.kinds}))
    return values


def _path_of_given_table(lexicon: str | PathLike[str], table: str) -> Path:
    """The path of a table of a given lexicon: in the package (`reference`) or in a run. Raises FileNotFoundError."""
    shipped = data_path("reference_lexicon") / f"{table}.parquet"
    path = shipped if lexicon == REFERENCE else place(lexicon, "lexicon") / table
    if not path.exists():
        raise FileNotFoundError(f"lexicon must be own, reference, auto or a run that has {table}, was: {lexicon}")
    return path.absolute()


def make(verb: str, run: Path, config: Any, execution: Execution) -> dict[str, int]:
    """Run the stages of a verb, such as lexicon, on a run; returns the last one's counters.

    Raises FileNotFoundError without an input, OtherConfigError for output made from something else unless `execution`
    overwrites, EngineError when a shard fails.
    """
    counts: dict[str, int] = {}
    execution = replace(execution, statistics=isinstance(execution.executor, Distributed))
    for stage in VERBS_OF_BUILD[verb].stages:
        estimates = read_manifest(run / "truth") if "truth" in stage.whole else None
        metadata = {} if estimates is None else {"p_true_from": truth.origin(estimates.counts)}
        counts = run_stage(stage, run, config, execution, metadata=metadata)
    return counts


class Built(NamedTuple):
    """The verbs that a build has run, and its warnings about the captions."""

    verbs: tuple[str, ...]
    warnings: tuple[str, ...]


def build(source: str | None, run: Path, options: Options, execution: Execution, only: Sequence[str] = ()) -> Built:
    """Build a run, or bring it up to date.

    Args:
        source: the captions; None: those that the run has.
        run: the folder of the run.
        options: settings of all stages.
        execution: where stages run, and what is shown.
        only: the verbs to run, else `planned_verbs`.

    Raises:
        ValueError: there are no captions, or an option is invalid.
        LockedError: another process writes into the run.
    """
    verbs = tuple(verb for verb in VERBS if verb in only) or planned_verbs(run, options)
    if source is None:
        if only and "ingest" in verbs:
            raise ValueError("CAPTIONS must be given: ingest reads them")
        verbs = tuple(verb for verb in verbs if verb != "ingest")
    elif "://" not in source and Path(source).is_dir() and has_table(Path(source), "captions"):
        raise ValueError(f"{source} is a run, must be captions: negcap build --output {source} builds from those in it")
    elif "ingest" not in verbs:
        raise ValueError(f"CAPTIONS is read by ingest, which --only leaves out: was {source}")
    # Finds invalid options before anything is run.
    configs = {verb: configure(verb, options) for verb in verbs}
    if source is None and not has_table(run, "captions"):
        raise ValueError(f"CAPTIONS must be given: {run} holds none")
    # One lock for all stages: between two of them no other command may change the run.
    with locked(run):
        if "ingest" not in verbs:
            for verb in verbs:
                make(verb, run, configs[verb], execution)
            return Built(verbs, ())
        assert source is not None
        ingested = ingestion.ingest(source, run, configs["ingest"], execution)
        for verb in verbs[1:]:  # ingest is the first
            make(verb, run, configs[verb], execution)
        return Built(verbs, (*ingested.warnings, *caption_warnings(run)))


def judge_proposals(stage: Stage, run: Path, options: Options, execution: Execution, *, anew: bool) -> dict[str, int]:
    """Run a stage that judges proposals, and before it the stages whose tables it reads; returns its counters.

    Args:
        stage: judges the table of proposals.
        run: the folder of the run.
        options: settings of all stages.
        execution: where stages run.
        anew: whether parses, lexicon and truth are brought up to date even if the run has them.
    """
    for verb, table in {"parse": "parses", "lexicon": "lexicon", "truth": "truth"}.items():
        if anew or not has_table(run, table):
            make(verb, run, configure(verb, options), execution)
    return run_stage(stage, run, Judging.of(options), execution)


def check_options(options: Options) -> None:
    """Raise TypeError for an option that no stage of a build has."""
    known = {*BuildConfig.model_fields}.union(*(config.model_fields for config in CONFIGS.values()))
    # Fields of configs that are no options of users.
    known -= {"parser", "backoff", "kinds"}  # `configure` sets them
    unknown = sorted(options.keys() - known)
    if unknown:
        listed = ", ".join(sorted(known))
        raise TypeError(f"settings must be among {listed}; was: {unknown[0]}{did_you_mean(unknown[0], known)}")


def make_in_memory(captions: pa.Table, options: Options) -> dict[str, pa.Table]:
    """Run the stages of a build on a table of captions in this process, without files; returns the tables by name."""
    tables = {"captions": captions}
    for verb in ("parse", *LEXICON_VERBS, "negatives"):
        [stage] = VERBS_OF_BUILD[verb].stages
        tables.update(run_in_memory(stage, tables, configure(verb, options)).tables)
    return tables
