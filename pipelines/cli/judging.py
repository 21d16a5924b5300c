"""Commands that take negatives of any origin: other people's, a language model's; and that let models read pairs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .building import JUDGING
from .choices import KINDS, READINGS
from .group import negcap, with_workers
from .options import FOLDER

FOREIGN = {
    "source_name": "first part of every caption_id; default: foreign",
    "shard_size": "captions per Parquet file, at most, of whole images; default: 1000",
}
endpoint = options.section(
    "The language model",
    click.option("--url", help="API of an OpenAI-compatible server, e.g. http://localhost:8000/v1."),
    click.option("--model", help="Name of the language model there."),
    click.option(
        "--local",
        type=FOLDER,
        metavar="FOLDER",
        help="Use a causal Hugging Face model in this folder instead of a server.",
    ),
    click.option("--max-requests", type=int, help="Budget of this run: requests, earlier calls included."),
    click.option("--max-total-tokens", type=int, help="Budget of this run: tokens, earlier calls included."),
    click.option("--prompts", type=FOLDER, metavar="FOLDER", help="Edited prompts by name; others are as shipped."),
    click.option("--copy-prompts", type=FOLDER, metavar="FOLDER", help="Write the shipped prompts there, and stop."),
)
ENDPOINT = {
    "temperature": "sampling temperature; default: the server's",
    "max_tokens": "tokens of an answer, at most; default: 512",
    "extra": "further fields of each request, as JSON; a null removes a field",
    "key_variable": "environment variable with the API key; default: OPENAI_API_KEY",
    "concurrency": "requests in flight at once; default: 8",
    "timeout": "seconds to wait for an answer; default: 120",
    "attempts": "times that a request is sent before giving up; default: 6",
    "cache": "file where answers are kept; default: RUN/_answers",
}
as_json = click.option("--json", "as_json", is_flag=True, help="Print the scorecard as JSON.")


@negcap.command(name="import")
@click.argument("source")
@click.option(
    "--output",
    "run",
    type=FOLDER,
    metavar="RUN",
    help="Folder of the run to write; default: none is kept, only --report.",
)
@options.limit
@options.strict
@options.settings(FOREIGN | JUDGING)
@click.option("--plausible", is_flag=True, default=None, help="Reject implausible negatives, too, as operators do.")
@click.option("--report", is_flag=True, help="Print a scorecard.")
@as_json
@options.workers
def import_(source: str, run: Path | None, report: bool, as_json: bool, **given: Any) -> None:
    """Read negatives that others made, and judge them.

    SOURCE is a file or folder of SugarCrepe, SugarCrepe++, NegCLIP, ARO, CREPE, VALSE, TROHN, CE-CLIP or VisMin, or any
    JSON, JSON Lines, CSV, TSV or Parquet file with a caption and a negative in each record. What a negative changes is
    recovered, and it is judged as the operators' are: by the other captions of the image, WordNet, the estimates of
    truth and the cloze model. The run has the tables captions, negatives, rejections (with reasons) and judged (what
    became of each), so every other command works on it.

    The scorecard has per kind of negative, in %: pairs that are equal or repeated, grammatical faults, the same words
    in another order, negatives that may be true by the other captions of the image; the mean estimate that they are
    true, plausibility, and words that a negative has more; then how well models without the images tell them, with the
    words that give them away, and all rejections with their reasons. Of a run that import has made, --report alone
    prints it.

    \b
    Example: negcap import sugar-crepe/data --output outputs/sugarcrepe --report
    """
    from tempfile import TemporaryDirectory

    from ..engine.tables import has_table
    from ..quality.scorecard import scorecards, to_json, to_text

    def print_scorecards(run: Path) -> None:
        cards = scorecards(run)
        print(to_json(cards) if as_json else to_text(cards))

    report = report or as_json
    if run is None and not report:
        raise click.UsageError("--output RUN must be given, or --report", click.get_current_context())
    if run is None and (Path(source) / "judged").is_dir() and has_table(Path(source), "judged"):
        print_scorecards(Path(source))
        return
    with TemporaryDirectory() as folder:
        kept = run or Path(folder) / "run"
        with with_workers(given) as (executor, progress):
            counts = _import(source, kept, given, executor, progress)
        print(_kept(counts), file=sys.stderr if report else sys.stdout)
        if report:
            print_scorecards(kept)


def _import(source: str, run: Path, given: dict[str, Any], executor: Any, progress: Any) -> dict[str, int]:
    from ..engine import provenance
    from ..engine.lock import locked
    from ..engine.tables import has_table
    from ..stages.build import judge_proposals
    from ..stages.imports import STAGE, ImportConfig, read_foreign

    if has_table(Path(source), "captions"):
        raise ValueError(
            f"{source} is a run, must be a set of negatives that others made: "
            f"negcap blind {source} and negcap audit {source} measure a run"
        )
    overwrite = given.pop("overwrite")
    names = ("source_name", "limit", "shard_size", "strict")
    config = options.config_of(ImportConfig, {name: given.pop(name, None) for name in names})
    with locked(run):
        read_foreign(source, run, config, metadata=provenance.package(), progress=progress, overwrite=overwrite)
        return judge_proposals(STAGE, run, given, executor, progress, anew=True, overwrite=overwrite)


def _kept(counts: dict[str, int]) -> str:
    """A line with the number of proposals that were kept, and why the others were rejected."""
    from collections import Counter

    kept = sum(n for name, n in counts.items() if name.endswith(".rows"))
    why: Counter[str] = Counter()
    for name, n in counts.items():
        if name.startswith(("rejected.", "problem.")):
            why[name.rpartition(".")[2]] += n
    total = counts.get("proposals", 0)
    share = f" ({100 * kept / total:.1f} %)" if total else ""
    refused = ", ".join(f"{name} {n:,}" for name, n in why.most_common())
    return (
        f"{total:,} proposals for {counts['captions']:,} captions: {kept:,} kept{share}; rejected: {refused or 'none'}"
    )


def _asker(run: Path, given: dict[str, Any], purpose: str) -> tuple[Any, dict[str, Any]]:
    """The language model of the flags, which are taken out of `given`, and what identifies it."""
    from ..endpoint.client import Endpoint, cache_path
    from ..endpoint.messages import EndpointConfig
    from ..engine.tables import shards_of

    shards_of(run, "captions")  # else the cache of the answers would make a folder that is no run
    url, model, local = given.pop("url"), given.pop("model"), given.pop("local")
    cache = Path(given.pop("cache", None) or cache_path(run))
    names = (*ENDPOINT, "max_requests", "max_total_tokens")
    own = {"max_tokens": "512", "seed": given.get("seed") or 0}
    own |= {name: given.pop(name) for name in names if given.get(name) is not None}
    if local is not None:
        from ..models.filler import LocalModel

        config = options.config_of(EndpointConfig, {"url": "http://localhost", "model": local.name, **own})
        asker: Any = LocalModel(local, config, cache, purpose)
        return asker, {"model": local.name, "temperature": config.temperature, "fingerprint": asker.fingerprint}
    if not url or not model:
        raise ValueError("a language model must be given: --url and --model of a server, or --local FOLDER")
    config = options.config_of(EndpointConfig, {"url": url, "model": model, **own})
    identity = {"model": model, "url": config.url, "temperature": config.temperature, "seed": config.seed}
    return Endpoint(config, cache, purpose), {**identity, "extra": config.extra}


def _copied(folder: Path | None) -> bool:
    """Whether prompts were to be copied, which is then done."""
    from ..prompts import copy_prompts

    if folder is None:
        return False
    for path in copy_prompts(folder):
        print(path)
    return True


@negcap.command()
@options.run
@options.several(
    "--kind",
    "kinds",
    "What is asked for; default: replace_object, replace_attribute and replace_relation.",
    choices=KINDS,
)
@click.option("--k", type=int, help="Negatives per caption and kind; with --filler, per word; default: 3.")
@options.splits
@click.option("--sample", type=int, help="Ask about so many random captions only; default: all.")
@endpoint
@options.settings(ENDPOINT | JUDGING)
@click.option(
    "--filler",
    type=FOLDER,
    metavar="FOLDER",
    help="Propose single words by this masked Hugging Face model instead.",
)
@click.option("--implausible", "plausible", flag_value=False, default=True, help="Keep implausible negatives, too.")
@options.seed
@options.workers
def propose(run: Path, copy_prompts: Path | None, filler: Path | None, **given: Any) -> None:
    """Let a language model write negatives, and judge them.

    Asks an OpenAI-compatible server (vLLM, llama.cpp, Ollama, hosted) or a local model for negatives of the captions in
    RUN (from negcap build). They are judged as the operators' are; rejected ones are kept with their reasons. Every
    answer is kept on disk, so a second call pays only for what is missing. With a masked model, --filler, the likeliest
    other words of each place are proposed.

    \b
    Example: negcap propose outputs/mine --url http://localhost:8000/v1 --model qwen --sample 500
    """
    if _copied(copy_prompts):
        return
    from ..engine import provenance
    from ..engine.lock import locked
    from ..engine.tables import has_table
    from ..stages.build import configure, judge_proposals, make
    from ..stages.propose import STAGE, ProposeConfig, acceptance, propose, propose_words

    with with_workers(given) as (executor, progress), locked(run):
        overwrite = given.pop("overwrite")
        names = ("kinds", "prompts", "k", "splits", "sample")
        chosen = options.only_set({name: given.pop(name) for name in names})
        config = ProposeConfig(**chosen, seed=given["seed"] or 0)
        common: dict[str, Any] = {"progress": progress, "overwrite": overwrite}
        if filler is not None:
            from ..models.filler import Filler

            if not has_table(run, "parses"):
                make("parse", run, configure("parse", given), executor, progress, overwrite)
            made = propose_words(run, config, Filler(filler), **common)
        else:
            asker, model = _asker(run, given, "propose")
            with asker:
                made = propose(run, config, asker, model, metadata=provenance.package(), **common)
        counts = judge_proposals(STAGE, run, given, executor, progress, anew=False, overwrite=made.overwrite)
    print(_kept(counts))
    print(acceptance(counts, made.answers), end="\n" if made.answers else "")


@negcap.command()
@options.run
@options.several(
    "--reading",
    "readings",
    "blind: pairs in both orders; image: with the photo; default: blind.",
    choices=READINGS,
)
@click.option("--refined", "table", flag_value="refined", help="Read only what negcap refine kept.")
@options.operators
@options.splits
@click.option("--sample", type=int, help="Read so many random negatives per operator; default: all.")
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Folder of the image files, for --reading image.")
@endpoint
@options.settings(ENDPOINT)
@options.seed
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@options.overwrite
@options.quiet
def vet(run: Path, copy_prompts: Path | None, as_json: bool, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Let a language model read negatives, as careful people do.

    Blind: which of the two texts did a person write, which is odd, could one photo be described by both? With the photo
    (a vision-language model): is the negative false of it? Writes the table verdicts, which keeps the verdicts of
    several readers, and prints shares with 95 % intervals, and how often a reader chose what stood first. `negcap
    refine --vetted` and `negcap publish --vetted` take only negatives that were read and that no reader rejects.

    \b
    Example: negcap vet outputs/mine --url http://localhost:8000/v1 --model qwen --sample 100
    """
    if _copied(copy_prompts):
        return
    from ..engine import provenance
    from ..engine.lock import locked
    from ..engine.progress import report
    from ..quality.annotation.agree import read_reports, readings_text, to_json
    from ..stages.vet import VetConfig, vet

    with locked(run):
        names = ("readings", "table", "operators", "splits", "sample", "images", "prompts")
        config = VetConfig(**options.only_set({name: given.pop(name) for name in names}), seed=given["seed"] or 0)
        asker, model = _asker(run, given, "vet")
        with asker:
            answers = vet(
                run, config, asker, model, metadata=provenance.package(), progress=report(quiet), overwrite=overwrite
            )
        print(to_json(read_reports(run)) if as_json else readings_text(read_reports(run)))
        spent = f"{answers.spent.requests:,} requests and {answers.spent.tokens:,} tokens spent now"
        left = answers.counts["not_asked"]
        print(f"negcap: {spent}; not asked as the budget is spent: {left:,}", file=sys.stderr)
