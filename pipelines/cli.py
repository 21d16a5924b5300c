"""The command line: one group, a verb a command. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines import options

if TYPE_CHECKING:
    from pipelines.engine.cluster import Executor
    from pipelines.progress import Silent

BAD_INPUT, CHECK_FAILED, INTERRUPTED = 2, 1, 130
STATUS = (
    "Exit status: 0 done, 1 a check failed, 2 bad input or arguments. NEGCAP_TRACEBACK=1 shows where an error is from."
)
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Verbs(click.Group):
    """The group; its commands in the order they are written in, not by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a run."""
        return list(self.commands)


@click.group(cls=Verbs, context_settings=CONTEXT, epilog=STATUS)
@click.version_option(package_name="negcap", message="%(prog)s %(version)s")
def negcap() -> None:
    """Negative captions: false of the image, fluent, and not guessable without looking at it.

    A run is a folder: every verb but the first reads the tables that the earlier ones left there.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; its exit status: 0 done, 1 a check failed, 2 bad input or arguments (one line on stderr).

    With NEGCAP_TRACEBACK set, an error shows where it comes from.
    """
    for name in ONE_THREAD:  # the work is spread over processes
        os.environ.setdefault(name, "1")
    try:
        return negcap.main(arguments, prog_name="negcap", standalone_mode=False) or 0
    except click.ClickException as error:
        if os.environ.get("NEGCAP_TRACEBACK") and error.__cause__ is not None:
            raise
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "negcap"
        print(f"{where}: {error.format_message()}", file=sys.stderr)
        return BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        print("negcap: interrupted; the same command again goes on from here", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what the library raises for bad input, or a run that had to stop, into an error of one line."""
    from pipelines.engine.errors import EngineError

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        raise click.ClickException(said) from error
    except (ValueError, ImportError, EngineError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


@contextmanager
def at_work(given: dict[str, Any]) -> Iterator[tuple[Executor, Silent]]:
    """The executor and the progress that the flags ask for; library errors become one line."""
    from pipelines.engine.cluster import executor
    from pipelines.progress import report

    with one_line_errors():
        workers = executor(given.pop("workers"), given.pop("scheduler"))
        try:
            yield workers, report(given.pop("quiet"))
        finally:
            workers.close()


@negcap.command()
@click.argument("captions")
@options.output
@options.ingest
@options.parse
@options.lexicon
@options.with_components
@options.components
@options.truth
@options.max_true
@options.balance
@options.negatives
@options.workers
def build(captions: str, run: Path, overwrite: bool, **given: Any) -> None:
    """Everything: from a caption file, folder or URL to negatives.

    Ingest, parse, lexicon, truth, balance, negatives, and a table of what came out; components too for --preset univse
    or all. What is done already is kept: after an interruption, the same command again goes on.
    """
    from pipelines import build as verbs
    from pipelines.summary import print_summary

    with at_work(given) as (executor, progress):
        configs = {verb: verbs.configure(verb, given) for verb in verbs.planned(run, given)}
        if not verbs.is_built(run):
            executor.start()
        _warn(verbs.ingest(captions, run, configs.pop("ingest"), progress, overwrite).warnings)
        for verb, config in configs.items():
            verbs.make(verb, run, config, executor, progress, overwrite)
        print_summary(run, progress.timings, sys.stdout)


@negcap.command()
@click.argument("captions")
@options.output
@options.ingest
@options.overwrite
@options.quiet
def ingest(captions: str, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read captions of any known format into the table captions.

    Formats: COCO annotation JSON, Karpathy dataset JSON, Flickr token files, Multi30K folders, VSE++ caption files,
    and CSV, TSV, JSONL or Parquet tables; plain or compressed, local or by URL. Bad records go to rejected_records.
    """
    from pipelines import build as verbs
    from pipelines.progress import report
    from pipelines.summary import opening

    with one_line_errors():
        config = verbs.configure("ingest", given)
        _warn(verbs.ingest(captions, run, config, report(quiet), overwrite).warnings)
        print("\n".join(opening(run)[:1]))


@negcap.command()
@options.run
@options.parse
@options.workers
def parse(run: Path, **given: Any) -> None:
    """Parse the captions once, for all later verbs."""
    _make("parse", run, given)


@negcap.command()
@options.run
@options.lexicon
@options.workers
def lexicon(run: Path, **given: Any) -> None:
    """Count what the corpus says, and where.

    The counts decide which replacements it allows in which place.
    """
    from pipelines.summary import opening

    _make("lexicon", run, given)
    print("\n".join(opening(run)[-1:]))


@negcap.command()
@options.run
@options.components
@options.frequent
@options.workers
def components(run: Path, **given: Any) -> None:
    """Read objects, attributes and relations off the parses.

    Also what may stand for them as negative components: a vocabulary, and what may be true of each image.
    """
    from pipelines.summary import reading

    _make("components", run, given)
    print("\n".join(reading(run)))


@negcap.command()
@click.argument("caption")
@options.components
@options.parse
@click.option("--dot", is_flag=True, help="As Graphviz source instead.")
def graph(caption: str, simple: bool | None, spacy_model: str | None, dot: bool) -> None:
    """Print the scene graph of a sentence."""
    from pipelines.quality.graph import print_graph

    with one_line_errors():
        print_graph(caption, sys.stdout, simple=bool(simple), spacy_model=spacy_model, dot=dot)


@negcap.command()
@options.run
@options.truth
@options.workers
def truth(run: Path, **given: Any) -> None:
    """Estimate what is true though no caption says so.

    Of every replacement, whether the image shows it all the same: from how often captions of one image say this and
    that, calibrated on captions held out of other images; of train splits where there are any.
    """
    _make("truth", run, given)


@negcap.command()
@options.run
@options.balance
@options.max_true
@options.workers
def balance(run: Path, **given: Any) -> None:
    """Weigh the replacements so that no word tells.

    A word that leaves captions more often than it enters them tells a reader which caption is true. The weights are
    fitted on a sample of the captions, of train splits where there are any.
    """
    _make("balance", run, given)


@negcap.command()
@options.run
@options.negatives
@options.max_true
@options.workers
def negatives(run: Path, **given: Any) -> None:
    """Make negatives of the parsed captions with the lexicon.

    Every candidate that was refused goes to rejections, with its reason.
    """
    from pipelines.summary import print_summary

    timings = _make("negatives", run, given)
    with one_line_errors():
        print_summary(run, timings, sys.stdout)


@negcap.command()
@options.run
@options.refine
@options.workers
def refine(run: Path, overwrite: bool, **given: Any) -> None:
    """Keep negatives that models without the images cannot tell.

    At most one a caption and operator goes to the table refined: chosen so that the gaps of several models, each
    fitted to other images, lie evenly around 0; the regression on n-grams is fitted again and again to what was
    chosen. Prints the yield. `negcap blind RUN --refined` measures what is left.
    """
    from pipelines import provenance
    from pipelines.quality.refine import INPUTS, RefineConfig, yields
    from pipelines.quality.refine import refine as refined

    with at_work(given) as (executor, progress):
        config = RefineConfig(**{name: value for name, value in given.items() if value is not None})
        metadata = provenance.of_stage(run, INPUTS, config)
        counts = refined(run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
        print(yields(counts))


@negcap.command()
@options.run
@options.blind
def blind(run: Path, operators: tuple[str, ...] | None, as_json: bool, table: str | None, **given: Any) -> None:
    """Measure how far the negatives can be told without the images.

    50 % is perfect. One negative a caption. A format rule, "the shorter is true", the log-odds of words, a language
    model of true captions and a regression on n-grams, out of fold by image; ± is half of the 95 % interval (Wilson's,
    with the design effect of several pairs an image). Then the words and n-grams that give most away.
    """
    from pipelines.quality.bias import measure_run, to_json, to_text

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        reports = measure_run(run, operators=operators, table=table or "negatives", together=True, **given)
        print(to_json(reports) if as_json else to_text(reports))


@negcap.command()
@click.argument("source", type=options.FOLDER)
@options.output
@options.features
@options.overwrite
@options.quiet
def features(source: Path, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read or extract image features.

    SOURCE is a folder of VSE++ arrays or one of them; with --onnx a folder of photos, or a run whose captions name
    the photos in --images. Images without a feature go to rejected_images, with the reason.
    """
    from pipelines import provenance
    from pipelines.progress import report
    from pipelines.stages.features import FeaturesConfig, make_features
    from pipelines.summary import extracted

    with one_line_errors():
        config = FeaturesConfig(**{name: value for name, value in given.items() if value is not None})
        metadata = provenance.package()
        make_features(source, run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(extracted(run, config.table))


@negcap.command()
@options.output
@options.scenes
@options.overwrite
@options.quiet
def scenes(run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Draw a small world whose truth is known.

    Pictures, five captions each, their features from a fixed small net, and what is true of each scene. The other
    verbs go on from there: parse, lexicon, components, balance, negatives.
    """
    from pipelines import provenance
    from pipelines.progress import report
    from pipelines.stages.scenes import ScenesConfig, make_scenes

    with one_line_errors():
        config = ScenesConfig(**{name: value for name, value in given.items() if value is not None})
        metadata = provenance.package()
        counts = make_scenes(run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(f"{counts['captions']:,} captions of {counts['images']:,} drawn scenes")


@negcap.command()
@options.run
@click.option("--refined", "table", flag_value="refined", help="Judge what negcap refine kept.")
@click.option("--n", type=int, default=5, show_default=True, help="Kinds of wrong rows shown, an operator.")
@click.option("--json", "as_json", is_flag=True, help="The counts as JSON.")
def judge(run: Path, table: str | None, n: int, as_json: bool) -> None:
    """Judge the negatives of drawn scenes.

    By the truth of the scenes, how many negatives are false: as people count ("a dog" is false of three dogs), and in
    logic too. Captions and positives, which must be true, are judged with them. Where opinions may differ, or the
    judge cannot read a sentence, nothing is decided, and counted.
    """
    from pipelines.scenes.report import judge_run, print_report, to_json

    with one_line_errors():
        tallies = judge_run(run, table or "negatives")
        if as_json:
            print(to_json(tallies))
        else:
            print_report(tallies, sys.stdout, n)


@negcap.command()
@options.run
@options.quiet
def verify(run: Path, quiet: bool) -> int:
    """Check every shard against its receipt and manifest.

    Hashes all bytes again; prints a line a problem, and ends with status 1 if there is any.
    """
    from pipelines.engine.verify import verify

    with one_line_errors():
        verdict = verify(run)
    for problem in verdict.problems:
        print(problem)
    if not quiet:
        wrong = f"{len(verdict.problems):,} problems" if verdict.problems else "all as they were written"
        print(f"{verdict.shards:,} shards of {verdict.tables} tables, {verdict.rows:,} rows: {wrong}", file=sys.stderr)
    return CHECK_FAILED if verdict.problems else 0


@negcap.command()
@options.run
@click.option("--operator", default="", help="Only rows of this operator.")
@click.option("--n", type=int, default=10, show_default=True, help="How many rows.")
@click.option("--rejections", "table", flag_value="rejections", help="Show refused candidates instead.")
@click.option("--reason", default="", help="Only refusals for this reason; implies --rejections.")
@options.seed
def show(run: Path, operator: str, n: int, table: str | None, reason: str, seed: int | None) -> None:
    """Show random negatives, the edit marked.

    In colour on a terminal, as [-old-]{+new+} elsewhere.
    """
    from pipelines.quality.show import print_rows, sample, table_of

    with one_line_errors():
        wanted = "rejections" if reason else table or table_of(operator)
        print_rows(sample(run, wanted, n, seed or 0, operator=operator, reason=reason), sys.stdout)


@negcap.command()
@options.run
@options.audit
def audit(run: Path, output: Path | None, quiet: bool, **given: Any) -> None:
    """Write a page that shows what the negatives are like.

    Coverage, yield, refusals, blind baselines, lengths, places and words of the edits, and random rows of every
    operator and reason. audit.html needs no network and no script; audit.parquet has the figures as rows.
    """
    from pipelines.progress import report
    from pipelines.quality.audit import AuditConfig
    from pipelines.quality.audit import audit as write

    with one_line_errors():
        config = AuditConfig(**{name: value for name, value in given.items() if value is not None})
        for file in write(run, output or run / "audit", config, report(quiet)):
            print(file)


@negcap.command()
@options.run
@options.sheet
def sheet(run: Path, output: Path, key: Path | None, overwrite: bool, **given: Any) -> None:
    """Write an annotation sheet for people, and its key.

    A caption and its negative side by side, not saying which is which, among controls of two true texts. Annotators
    answer which of them describes the image, and which is fluent: a, b, both, neither or unsure. Keep the key from
    them; give each a copy of the sheet.
    """
    from pipelines.quality.annotation.sheet import SheetConfig, summary, write_sheet

    with one_line_errors():
        config = SheetConfig(**{name: value for name, value in given.items() if value is not None})
        sheet, key, items = write_sheet(run, output, config, key, overwrite=overwrite)
        print(f"{sheet}: {summary(items)}")
        print(f"{key}: the key, not for annotators")


@negcap.command()
@options.agree
def agree(sheets: tuple[Path, ...], key: Path | None, as_json: bool) -> None:
    """Read annotation sheets back: validity and agreement.

    A sheet an annotator, or columns describes_1, fluent_1, describes_2 … in one. By operator, the share of negatives
    that a majority finds valid, false and fluent, with 95 % Wilson intervals, and Krippendorff's alpha.
    """
    from pipelines.quality.annotation.agree import agree as judged
    from pipelines.quality.annotation.agree import to_json, to_text

    with one_line_errors():
        report = judged(sheets, key)
        print(to_json(report) if as_json else to_text(report))


@negcap.command()
@options.run
@options.publish
def publish(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> int:
    """Write a test set in the format that others read.

    With a data card, Croissant metadata and digests. Ends with status 1, and nothing written, if a model without the
    images tells the negatives, or train captions stand in another split.
    """
    from pipelines.publish.gate import RefusedError
    from pipelines.publish.publish import PublishConfig
    from pipelines.publish.publish import publish as write

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        try:
            written = write(run, output, PublishConfig(**given), overwrite=overwrite, say=lambda line: _warn([line]))
        except RefusedError as refused:
            print("\n".join(refused.lines))
            return CHECK_FAILED
    if not quiet:
        print(f"{len(written):,} files in {output}", file=sys.stderr)
    return 0


@negcap.command()
@options.run
@options.train
@options.device
def train(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train an embedding of images and captions.

    VSE, VSE++, or VSE-C with negatives of the run. Reads captions, features and negatives. The folder MODEL gets
    weights, metrics.jsonl and curves.png. An interrupted training goes on after its last whole epoch.
    """
    from pipelines.trainer.config import TrainConfig

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        config = TrainConfig(run=run, output=output, **given)
        from pipelines.trainer.train import train as fit

        fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@options.evaluate
@options.device
def evaluate(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure retrieval, plain and under attack.

    Recalls, ranks and 95 % intervals without negatives; with each image's own (VSE-C's protocol) and with all in one
    set (UniVSE's); on captions that count; and how often a caption scores above its negative. Prints Markdown; JSON
    and the ranks as Parquet lie beside the model.
    """
    from pipelines.trainer.config import EvaluateConfig

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        config = EvaluateConfig(**given)
        from pipelines.trainer.evaluate import evaluate as measure

        print(measure(model, run, config, output))


def _make(verb: str, run: Path, given: dict[str, Any]) -> Any:
    """One verb on a run; the timings."""
    from pipelines import build as verbs

    with at_work(given) as (executor, progress):
        overwrite = given.pop("overwrite")
        verbs.make(verb, run, verbs.configure(verb, given), executor, progress, overwrite)
        return progress.timings


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"negcap: {warning}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
