"""Commands that take negatives of any origin, other people's or a language model's, and that let models rate pairs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...schemas.messages import number_of
from . import options
from .group import in_this_process, negcap, to_json, with_workers
from .options import FOLDER, FlagValue

if TYPE_CHECKING:
    from ..endpoint.client import Endpoint

JUDGED = "stages.proposals:Judging stages.build:LexiconSource stages.lexicon:LexiconConfig stages.truth:TruthConfig"
ASKED = "endpoint.messages:EndpointConfig"
MODEL = {"The language model": "url model max_requests max_total_tokens prompts"}


def _copy_prompts(ctx: click.Context, flag: click.Parameter, folder: Path | None) -> None:
    """The callback of --copy-prompts: write the built-in prompts to a folder, and end the command."""
    if folder is not None:
        from ..prompts import copy_prompts

        for path in copy_prompts(folder):
            print(path)
        ctx.exit()


endpoint_flags = options.section(
    "The language model",
    click.option("--cache", type=FOLDER, metavar="FILE", help="File where answers are kept; default: RUN/_answers."),
    click.option(
        "--copy-prompts",
        type=FOLDER,
        metavar="FOLDER",
        is_eager=True,
        expose_value=False,
        callback=_copy_prompts,
        help="Write the built-in prompts to this folder, and stop.",
    ),
)


@negcap.command(name="import", configs=f"stages.imports:ImportConfig {JUDGED}", flags="limit strict plausible cautious")
@click.argument("source")
@click.option(
    "--output",
    "run",
    type=FOLDER,
    metavar="RUN",
    help="Folder of the run to write; default: no run is kept, only --report is printed.",
)
@options.columns(
    ("image", "caption", "negative", "label", "split", "truth"),
    "Columns of the set, e.g. caption=true,negative=false; ROLE: image, caption, negative, label, split or truth (1 or "
    "0: the caption is true of its image or not); default: by the names that such sets use. caption and negative may "
    "be repeated.",
    repeated=("caption", "negative"),
)
@click.option("--report", is_flag=True, help="Print a scorecard.")
@options.as_json
@options.workers
def import_(source: str, run: Path | None, report: bool, as_json: bool, **given: FlagValue) -> None:
    """Read negatives that others made, and check them.

    SOURCE is a file or folder of SugarCrepe, SugarCrepe++, NegCLIP, ARO, CREPE, VALSE, TROHN, CE-CLIP or VisMin, or any
    JSON, JSON Lines, CSV, TSV or Parquet file with a caption and a negative in each record. The edit of each negative
    is recovered and checked against the captions of its image. A negative is true, and rejected, if it says only what
    one of them says, in its words, synonyms or hypernyms. Otherwise it is false, or undecidable if the captions leave
    it open. --cautious also rejects what operators would refuse because it may be true. The run has the tables
    captions, negatives, rejections (with reasons) and judged (what became of each), so every other command works on it.

    The scorecard shows, per kind of negative and in %: pairs that are equal or repeated, grammatical faults, the same
    words in another order, negatives that are true or undecidable. It also shows the mean p_true, plausibility, and how
    many words a negative has more; the accuracy of the text-only baselines, with the words that give negatives away;
    and all rejections with their reasons. For a run that import has made, --report alone prints it.

    \b
    Example: negcap import sugar-crepe/data --output outputs/sugarcrepe --report
    """
    from tempfile import TemporaryDirectory

    from ..engine.lock import locked
    from ..engine.tables import has_table
    from ..quality.scorecard import scorecards, to_text
    from ..report.summary import rejected_text
    from ..stages.build import judge_proposals
    from ..stages.imports import STAGE, ImportConfig, read_foreign

    report = report or as_json
    if run is None and not report:
        raise click.UsageError("--output RUN must be given, or --report", click.get_current_context())
    with TemporaryDirectory() as folder:
        # A run that import has made has its judgements already: only the scorecard is asked for.
        if run is None and (Path(source) / "judged").is_dir() and has_table(Path(source), "judged"):
            run = Path(source)
        else:
            if has_table(Path(source), "captions"):
                raise ValueError(
                    f"{source} is a run, must be a set of negatives that others made: "
                    f"negcap blind {source} and negcap audit {source} measure a run"
                )
            run = run or Path(folder) / "run"
            with with_workers(given) as execution, locked(run):
                read = read_foreign(source, run, ImportConfig.of(given), execution)
                counts = judge_proposals(STAGE, run, given, execution, anew=True)
            print(_kept_line(counts) + rejected_text(read, "record"), file=sys.stderr if report else sys.stdout)
        if report:
            cards = scorecards(run)
            print(to_json({card["name"]: card for card in cards}) if as_json else to_text(cards))


def _kept_line(counts: dict[str, int]) -> str:
    """A line with the number of proposals that were kept, and why the others were rejected."""
    from collections import Counter

    kept = sum(count for name, count in counts.items() if name.endswith(".rows"))
    reasons: Counter[str] = Counter()
    # Counters are named rejected.<operator>.<reason> and problem.<reason>.
    for name, count in counts.items():
        if name.startswith(("rejected.", "problem.")):
            reasons[name.rpartition(".")[2]] += count
    total = counts.get("proposals", 0)
    share = f" ({100 * kept / total:.1f} %)" if total else ""
    refused = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    proposals = number_of(total, "proposal")
    captions = number_of(counts["captions"], "caption")
    return f"{proposals} for {captions}: {kept:,} kept{share}; rejected: {refused or 'none'}"


def _open_endpoint(run: Path, given: Mapping[str, FlagValue], purpose: str) -> Endpoint:
    """The endpoint of the language model that the flags name; purpose: what its spending counts under."""
    from ...augment.settings import given_only
    from ..endpoint.client import Endpoint, cache_path
    from ..endpoint.messages import EndpointConfig
    from ..engine.tables import shards_of

    for name, example in (("url", "http://localhost:8000/v1"), ("model", "qwen")):
        if given[name] is None:
            raise click.UsageError(f"--{name} must be given, e.g. --{name} {example}", click.get_current_context())
    shards_of(run, "captions")  # raises for a folder that is no run, which the cache of answers would create
    config = EndpointConfig.of({"seed": 0, **given_only(given)})
    return Endpoint(config, given["cache"] or cache_path(run), purpose)


@negcap.command(
    configs=f"stages.propose:ProposeConfig {ASKED} {JUDGED}", flags={"Options": "kinds k splits sample seed", **MODEL}
)
@options.run
@endpoint_flags
@click.option(
    "--no-cautious",
    "cautious",
    flag_value=False,
    default=True,
    help="Keep what operators would refuse because it may be true.",
)
@click.option("--no-plausible", "plausible", flag_value=False, default=True, help="Also keep implausible negatives.")
@options.workers
def propose(run: Path, **given: FlagValue) -> None:
    """Let a language model write negatives, and check them.

    Asks an OpenAI-compatible server (vLLM, llama.cpp, Ollama, hosted) for negatives of the captions in RUN (from negcap
    build). They are checked like those of operators; rejected ones are kept with their reasons. Every answer is kept on
    disk, so a second call pays only for what is missing.

    \b
    Example: negcap propose outputs/mine --url http://localhost:8000/v1 --model qwen --sample 500
    """
    from ..engine.lock import locked
    from ..stages.build import judge_proposals
    from ..stages.propose import STAGE, ProposeConfig, acceptance, propose

    # One lock for both stages: another command must not change the captions between asking and judging.
    with with_workers(given) as execution, locked(run):
        config = ProposeConfig.of(given)
        with _open_endpoint(run, given, "propose") as endpoint:
            answers, overwrite = propose(run, config, endpoint, execution)
        execution = replace(execution, overwrite=overwrite)
        counts = judge_proposals(STAGE, run, given, execution, anew=False)
    print(_kept_line(counts))
    print(acceptance(counts, answers))


@negcap.command(
    configs=f"stages.vet:VetConfig {ASKED}", flags={"Options": "readings operators splits sample images seed", **MODEL}
)
@options.run
@options.refined
@endpoint_flags
@options.as_json
@options.overwrite
@options.quiet
def vet(run: Path, as_json: bool, **given: FlagValue) -> None:
    """Let a language model rate negatives: are they false and natural?

    From the text alone (blind): which of the two texts did a person write, which is unnatural, could both describe one
    photo? With the photo (a vision-language model): is the negative false? Writes the table verdicts, which keeps the
    ratings of several models, and prints shares with 95 % intervals, and how often a model chose the text that came
    first. `negcap refine --vetted` and `negcap publish --vetted` take only negatives that were rated and that no rater
    rejects.

    It does not measure how a vision-language model does on the negatives (use `negcap score`), or what text-only
    baselines can guess (use `negcap blind`); for people, use `negcap sheet` and `negcap agree`.

    \b
    Example: negcap vet outputs/mine --url http://localhost:8000/v1 --model qwen --sample 100
    """
    from ..engine.lock import locked
    from ..quality.annotation import read_reports, readings_text
    from ..stages.vet import VetConfig, vet

    with locked(run):
        config = VetConfig.of(given)
        with _open_endpoint(run, given, "vet") as endpoint:
            answers = vet(run, config, endpoint, in_this_process(given))
        print(to_json(read_reports(run)) if as_json else readings_text(read_reports(run)))
        requests = number_of(answers.spent.requests, "request")
        tokens = number_of(answers.spent.tokens, "token")
        left = f"not asked because the budget is spent: {answers.counts['not_asked']:,}"
        print(f"negcap: {requests} and {tokens} spent now; {left}", file=sys.stderr)
