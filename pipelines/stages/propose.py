"""Stage propose: a language model writes negatives of a run's captions; they are judged as the operators' are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field

from ...augment.settings import AtLeastOne, Seed, Settings, Splits
from ...schemas.captions import LANGUAGE
from ...schemas.messages import number_of
from ...schemas.negatives import PROPOSALS
from ..endpoint.client import Answers, Endpoint, collect
from ..endpoint.messages import ChatAnswer, chat, negatives_in
from ..engine.manifest import describe, read_manifest
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.tables import has_table, hash_inputs, shards_of
from ..prompts import Prompt, load
from ..tables.columns import check_splits, stored_splits
from .proposals import judging

if TYPE_CHECKING:
    import pandas as pd

NAME = "propose"
STAGE = judging(NAME)
EXCERPT = 200  # characters of an answer without negatives
COLUMNS = ("caption_id", "image_id", "split", "language", "text")
ROW = ("caption_id", "asked", "text", "source", "prompt", "temperature", "fingerprint", "problem")
Row = Mapping[Any, Any]  # a row of a table, by names of columns


class ProposeConfig(Settings):
    """What is asked of a language model; each of `kinds` is asked for every caption."""

    kinds: tuple[
        Literal["replace_object", "replace_attribute", "replace_relation", "swap", "add", "negate", "free"], ...
    ] = Field(("replace_object", "replace_attribute", "replace_relation"), description="kind of edit to ask for")
    prompts: Path | None = Field(None, description="folder of edited prompts, by file name; the others are as shipped")
    k: AtLeastOne = Field(3, description="negatives per caption and kind")
    splits: Splits = ()
    sample: AtLeastOne | None = Field(None, description="ask about only this many random captions; none: all")
    seed: Seed = 0


class Proposed(NamedTuple):
    """What the model has answered, and whether tables that were made of older proposals may be replaced."""

    answers: Answers
    overwrite: bool


def propose(run: Path, config: ProposeConfig, endpoint: Endpoint, execution: Execution) -> Proposed:
    """Ask a language model for negatives of captions, and write the table proposals: a shard for each of captions'.

    An answer that is refused, or in another form than asked for, becomes a row with a `problem`. Captions beyond the
    budget have no rows; the same command with a larger budget continues with them.

    Args:
        run: whose captions are asked about.
        config: which captions, which kinds of negatives, and how many of each.
        endpoint: the language model.
        execution: how the stage is run, and whether it may replace the table.

    Raises:
        FileNotFoundError: the run has no captions.
        EndpointError: the model cannot be reached, or does not answer as it should.
        OtherConfigError: the table was made with other settings.
    """
    captions = _read_captions(run, config, execution.overwrite)
    prompts = [load(name, config.prompts) for name in config.kinds]
    # By image_id, a list of all its captions as a text, which is shown to the model.
    captions_of_image = ("- " + captions["text"]).groupby(captions["image_id"]).agg("\n".join)
    chosen: Sequence[Row] = captions[captions["asked"]].to_dict("records")
    questions = [(row, prompt) for row in chosen for prompt in prompts]
    filled = (
        prompt.filled(caption=row["text"], captions=captions_of_image[row["image_id"]], k=str(config.k))
        for row, prompt in questions
    )
    requests = (chat(user, system) for system, user in filled)
    answers = collect(NAME, endpoint, requests, execution.progress, len(questions))
    rows: list[Row] = []
    for (row, prompt), answer in zip(questions, answers.answers, strict=True):
        if answer.status != "budget":
            rows += _proposals_in_answer(row, prompt, answer, config.k, endpoint.identity["temperature"])
    made_by = {
        "model": endpoint.identity,
        "prompts": {prompt.name: prompt.sha256 for prompt in prompts},
        "answers": answers.sha256,
    }
    return Proposed(answers, _write_proposals(run, config, captions, rows, made_by, execution))


def _read_captions(run: Path, config: ProposeConfig, overwrite: bool) -> pd.DataFrame:
    """All captions of a run, with the number of their `shard`, and whether they are `asked` about.

    Raises ValueError for a split without captions; also if the run has negatives of operators, which proposals would
    replace, unless it overwrites.
    """
    import pandas as pd

    manifest = read_manifest(run / "negatives") if has_table(run, "negatives") else None
    if manifest is not None and manifest.identity.stage != NAME and not overwrite:
        raise ValueError(
            f"{run / 'negatives'} was made by negcap {manifest.identity.stage}: --overwrite replaces it, or propose in "
            "a run of its own (negcap build)"
        )
    shards = enumerate(shards_of(run, "captions"))
    captions = pd.concat([shard.read(COLUMNS).to_pandas().assign(shard=number) for number, shard in shards])
    check_splits(config.splits, captions["split"], "captions")
    asked = captions["language"] == LANGUAGE
    if config.splits:
        asked &= captions["split"].isin(stored_splits(config.splits))
    ids = captions["caption_id"][asked].tolist()
    if config.sample is not None and config.sample < len(ids):
        ids = Random(config.seed).sample(sorted(ids), config.sample)
    return captions.assign(asked=captions["caption_id"].isin(ids))


def _proposals_in_answer(
    row: Row, prompt: Prompt, answer: ChatAnswer, k: int, temperature: float | None
) -> Iterator[Row]:
    """The proposals in an answer, as rows of ROW; if there is none in it, one with a problem.

    Args:
        row: the caption that was asked about.
        prompt: the question.
        answer: of the model.
        k: how many negatives were asked for.
        temperature: of the model.
    """
    proposal = {
        "caption_id": row["caption_id"],
        "asked": prompt.name,
        "source": answer.model,
        "prompt": prompt.sha256,
        "temperature": temperature,
        "fingerprint": answer.fingerprint,
    }
    texts, problem = answer.read(lambda text: negatives_in(text, k))
    if problem:
        texts = [(answer.text or answer.detail)[:EXCERPT]]
    for text in texts or ():
        yield {**proposal, "text": text, "problem": problem}


def _write_proposals(
    run: Path,
    config: ProposeConfig,
    captions: pd.DataFrame,
    rows: Iterable[Row],
    made_by: Mapping[str, Any],
    execution: Execution,
) -> bool:
    """Write the table proposals, a shard for each shard of captions.

    A table that is there already is replaced without `overwrite` if the new proposals only continue it: those of the
    same config and captions, asked for with a larger budget.

    Args:
        run: the folder of the run.
        config: what was asked for.
        captions: as of `_read_captions`.
        rows: the proposals, as of `_proposals_in_answer`.
        made_by: what else determines them: the model, and under `answers` the hash of its answers.
        execution: whether older proposals are replaced.

    Returns:
        Whether tables made of older proposals may be replaced, too.
    """
    import pandas as pd

    # The config names the folder of the prompts; `made_by` has under the same name the hash of each prompt.
    described = {name: value for name, value in describe(config).items() if name != "prompts"} | dict(made_by)
    inputs = hash_inputs(run, ("captions",))
    manifest = read_manifest(run / "proposals") if has_table(run, "proposals") else None
    if manifest is not None and manifest.identity.stage == NAME and dict(manifest.identity.inputs) == inputs:
        # The budget is no part of the description. A larger one adds answers, so that their hash is another one.
        # Nothing else may differ.
        continues = {**manifest.identity.config, "answers": ""} == {**described, "answers": ""}
        execution = replace(execution, overwrite=execution.overwrite or continues)
    proposals = pd.DataFrame(list(rows), columns=ROW)
    proposals = captions[["caption_id", "image_id", "shard"]].merge(proposals, on="caption_id")
    proposals["number"] = proposals.groupby("caption_id").cumcount()

    def make(shard: int) -> StageResult:
        """The proposals for the captions of a shard, as its table."""
        of_shard = proposals[proposals["shard"] == shard]
        table = pa.Table.from_pandas(of_shard, PROPOSALS, preserve_index=False)
        return StageResult({"proposals": table.replace_schema_metadata()}, {"proposals": len(table)})

    parts = [partial(make, shard) for shard in range(captions["shard"].max() + 1)]
    run_source(run, NAME, {"proposals": PROPOSALS}, parts, described, execution, inputs=inputs)
    return execution.overwrite


def acceptance(counts: Mapping[str, int], answers: Answers) -> str:
    """Lines that say what was answered and what the kept negatives cost.

    Args:
        counts: of the judging stage: {"noun.rows": 90, ...} are the negatives it kept.
        answers: of the model that proposed them.
    """
    asked = answers.counts
    kept = sum(rows for name, rows in counts.items() if name.endswith(".rows"))
    total = sum(asked[name] for name in ("answered", "refused", "not_asked"))
    line = (
        f"{number_of(total, 'request')}: {asked['answered']:,} answered ({asked['cached']:,} from the cache), "
        f"{asked['refused']:,} refused, {asked['not_asked']:,} not sent because the budget is spent; "
        f"spent now: {number_of(answers.spent.requests, 'request')}, {number_of(answers.spent.tokens, 'token')}"
    )
    return line + (f"\nrequests per 1,000 negatives kept: {1000 * asked['answered'] / kept:,.0f}" if kept else "")
