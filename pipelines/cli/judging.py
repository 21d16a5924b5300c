"""Commands that take negatives of any origin: other people's, a language model's; and that let models read pairs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from negcap.pipelines.cli import options
from negcap.pipelines.cli.group import negcap, one_line_errors, with_workers
from negcap.pipelines.cli.options import FOLDER
from negcap.pipelines.cli.tables import cloze, lexicon_choice, max_true, min_plausibility, scorer

reading = options.together(
    click.option("--source-name", metavar="NAME", help="First part of every caption_id; default: foreign."),
    options.limit,
    click.option("--shard-size", type=int, help="Captions per Parquet file, at most, of whole images; default: 1000."),
    click.option("--strict", is_flag=True, default=None, help="Stop at the first bad record instead of rejecting it."),
)
judging = options.together(options.spacy_model, lexicon_choice, max_true, min_plausibility, cloze, scorer)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the scorecard as JSON.")


@negcap.command(name="import")
@click.argument("source")
@options.output
@reading
@judging
@click.option("--plausible", is_flag=True, default=None, help="Refuse implausible negatives, too, as operators do.")
@click.option("--report", is_flag=True, help="Print the scorecard, as negcap judge-pairs does.")
@options.workers
def import_(source: str, run: Path, report: bool, **given: Any) -> None:
    """Read negatives that others made, and judge them.

    SOURCE is a file or folder of SugarCrepe, SugarCrepe++, NegCLIP, ARO, CREPE, VALSE, TROHN, CE-CLIP or VisMin, or any
    JSON, JSON Lines, CSV, TSV or Parquet file with a caption and a negative in each record. What a negative changes is
    recovered, and it is judged as the operators' are: by the other captions of the image, WordNet, the estimates of
    truth and the cloze model. The run has the tables captions, negatives, rejections (with reasons) and judged (what
    became of each), so every other command works on it.

    \b
    Example: negcap import sugar-crepe/data --output outputs/sugarcrepe --report
    """
    with with_workers(given) as (executor, progress):
        counts = _import(source, run, given, executor, progress)
    print(_kept(counts))
    if report:
        _print_scorecards(run, False)


def _import(source: str, run: Path, given: dict[str, Any], executor: Any, progress: Any) -> dict[str, int]:
    from negcap.pipelines.engine import provenance
    from negcap.pipelines.engine.lock import locked
    from negcap.pipelines.stages.imports import STAGE, ImportConfig, read_foreign
    from negcap.pipelines.stages.proposals import judge_proposals

    overwrite = given.pop("overwrite")
    own = {name: given.pop(name) for name in ("source_name", "limit", "shard_size", "strict")}
    config = ImportConfig(**options.only_set(own))
    with locked(run):
        read_foreign(source, run, config, metadata=provenance.package(), progress=progress, overwrite=overwrite)
        return judge_proposals(STAGE, run, given, executor, progress, anew=True, overwrite=overwrite)


def _kept(counts: dict[str, int]) -> str:
    """A line with the number of proposals that were kept, and why the others were refused."""
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
        f"{total:,} proposals for {counts['captions']:,} captions: {kept:,} kept{share}; refused: {refused or 'none'}"
    )


def _print_scorecards(run: Path, as_json: bool) -> None:
    from negcap.pipelines.quality.scorecard import scorecards, to_json, to_text

    with one_line_errors():
        cards = scorecards(run)
        print(to_json(cards) if as_json else to_text(cards))


@negcap.command(name="judge-pairs")
@click.argument("source")
@click.option("--output", "run", type=FOLDER, metavar="RUN", help="Keep the run there; default: a temporary one.")
@reading
@judging
@as_json
@options.workers
def judge_pairs(source: str, run: Path | None, as_json: bool, **given: Any) -> None:
    """Print a scorecard of negatives that others made.

    SOURCE is a set as negcap import reads it, or a run that it made. Per kind of negative, in %: pairs that are equal
    or repeated, grammatical faults, the same words in another order, negatives that may be true by the other captions
    of the image; the mean estimate that they are true, plausibility, and words that a negative has more; then how well
    models without the images tell them, with the words that give them away, and all refusals with their reasons.

    \b
    Example: negcap judge-pairs sugar-crepe/data
    """
    from tempfile import TemporaryDirectory

    from negcap.pipelines.engine.tables import has_table

    if (Path(source) / "judged").is_dir() and has_table(Path(source), "judged"):
        _print_scorecards(Path(source), as_json)
        return
    with TemporaryDirectory() as folder:
        kept = run or Path(folder) / "run"
        with with_workers(given) as (executor, progress):
            counts = _import(source, kept, given, executor, progress)
        print(_kept(counts), file=sys.stderr)
        _print_scorecards(kept, as_json)
