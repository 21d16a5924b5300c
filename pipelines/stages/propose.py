"""Stage propose: a language model writes negatives of a run's captions; they are judged as the operators' are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from ...schemas.captions import LANGUAGE
from ...schemas.negatives import PROPOSALS
from ..endpoint.collect import Answers, Asker, collect
from ..endpoint.json_answers import negatives_in
from ..endpoint.messages import Answer, Request, chat
from ..engine import provenance
from ..engine.bounds import at_least
from ..engine.identity import hash_value
from ..engine.manifest import describe, read_manifest
from ..engine.run import hash_inputs
from ..engine.source import Parts, SourceStage, run_source
from ..engine.stage import Progress, StageResult
from ..engine.tables import has_table, shards_of
from ..prompts import PROPOSALS as KINDS
from ..prompts import Prompt, load
from ..tables.columns import UNSPLIT, check_splits
from .proposals import judging

if TYPE_CHECKING:
    import pyarrow as pa

    from ..models.filler import Filler

NAME = "propose"
STAGE = judging(NAME)
EXCERPT = 200
COLUMNS = ("caption_id", "image_id", "split", "language", "text")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ProposeConfig:
    """What is asked of a language model.

    kinds: the prompts, of negcap.pipelines.prompts.PROPOSALS; each is asked for every caption. prompts: a folder of
    edited prompts; None: those shipped. k: negatives per caption and prompt. splits: only captions of these; empty:
    all. sample: only so many captions, at random by `seed`; None: all. Raises ValueError for k or sample below 1, or an
    unknown kind.
    """

    kinds: tuple[str, ...] = ("replace_object", "replace_attribute", "replace_relation")
    prompts: Path | None = None
    k: int = 3
    splits: tuple[str, ...] = ()
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, 1, ("k", "sample"))
        for name in self.kinds:
            if name not in KINDS:
                raise ValueError(f"kind must be one of {', '.join(KINDS)}, was: {name}")


@dataclass(frozen=True)
class Proposed:
    """The result of `propose`: the counters of the stage, those of the answers, and whether old tables may go."""

    counts: Mapping[str, int]
    answers: Answers | None
    overwrite: bool


def check_negatives(run: Path, overwrite: bool) -> None:
    """Raise ValueError if the run has negatives of operators, which proposals would replace, unless `overwrite`."""
    manifest = read_manifest(run / "negatives") if has_table(run, "negatives") else None
    if manifest is not None and manifest.identity.stage != NAME and not overwrite:
        raise ValueError(
            f"{run / 'negatives'} was made by negcap {manifest.identity.stage}: --overwrite replaces it, or propose in "
            "a run of its own (negcap ingest)"
        )


def propose(
    run: Path,
    config: ProposeConfig,
    asker: Asker,
    model: Mapping[str, Any],
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> Proposed:
    """Ask a language model for negatives of the captions, and write the table proposals, a shard for each of captions.

    model: what determines its answers besides the request (its name, temperature …), plain JSON. An answer that is not
    the JSON that was asked for, or that the server refuses to give, becomes one row with a `problem`; captions for
    which the budget did not suffice have none. With a larger budget the same command continues: the answers that there
    are cost nothing. Raises FileNotFoundError without captions, EndpointError as `Endpoint.ask`, OtherConfigError.
    """
    check_negatives(run, overwrite)
    prompts = [load(name, config.prompts) for name in config.kinds]
    shards = [shard.read(COLUMNS).to_pylist() for shard in shards_of(run, "captions")]
    chosen = _chosen([row for shard in shards for row in shard], config)
    asked = [(row, prompt) for shard in shards for row in shard if row["caption_id"] in chosen for prompt in prompts]
    siblings = _siblings([row for shard in shards for row in shard])
    requests = (_request(row, prompt, siblings[row["image_id"]], config.k) for row, prompt in asked)
    answers = collect(NAME, asker, requests, progress, len(asked))
    rows: dict[str, list[dict[str, Any]]] = {}
    counts: Counter[str] = Counter()
    for (row, prompt), answer in zip(asked, answers.answers, strict=True):
        made = list(_rows(row, prompt, answer, config.k, model.get("temperature")))
        counts["malformed"] += sum(one["problem"] == "malformed" for one in made)
        rows.setdefault(row["caption_id"], []).extend(made)
    identity = {**_described(config), "model": dict(model), "prompts": {one.name: one.sha256 for one in prompts}}
    written = write_proposals(run, shards, rows, identity, answers.sha256, metadata, progress, overwrite)
    return Proposed(counts, answers, written)


def propose_words(
    run: Path,
    config: ProposeConfig,
    filler: Filler,
    *,
    progress: Progress,
    overwrite: bool = False,
) -> Proposed:
    """Propose other words for single words of the captions by a masked language model, as NegCLIP and CE-CLIP do.

    Writes the table proposals as `propose`; k: words per place. Raises FileNotFoundError without parses.
    """
    check_negatives(run, overwrite)
    shards = [shard.read(COLUMNS).to_pylist() for shard in shards_of(run, "captions")]
    chosen = _chosen([row for shard in shards for row in shard], config)
    rows: dict[str, list[dict[str, Any]]] = {}
    for shard in shards_of(run, "parses"):
        for caption_id, text, label in filler.propose(shard.read(), chosen, config.k):
            row: dict[str, Any] = {
                "caption_id": caption_id,
                "asked": label,
                "text": text,
                "source": filler.name,
                "problem": "",
            }
            row |= {"problem": "", "prompt": "", "temperature": None, "fingerprint": filler.fingerprint}
            rows.setdefault(caption_id, []).append(row)
    identity = {**_described(config), "filler": filler.fingerprint}
    answers = hash_value([[row["text"] for row in some] for some in rows.values()])
    metadata = provenance.package()
    return Proposed({}, None, write_proposals(run, shards, rows, identity, answers, metadata, progress, overwrite))


def _described(config: ProposeConfig) -> dict[str, Any]:
    return {name: value for name, value in describe(config).items() if name != "prompts"}


def write_proposals(
    run: Path,
    shards: Sequence[Sequence[Row]],
    rows: Mapping[str, list[dict[str, Any]]],
    config: Mapping[str, Any],
    answers: str,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool,
) -> bool:
    """Write the proposals of each shard of captions; returns whether tables that were made of them may be replaced.

    answers: the hash of what was answered. Proposals that only continue those that the run has (the same config and
    captions, other answers: the budget was raised) replace them without `overwrite`.
    """
    inputs = hash_inputs(NAME, run, ("captions",))
    manifest = read_manifest(run / "proposals") if has_table(run, "proposals") else None
    if manifest is not None and manifest.identity.stage == NAME and dict(manifest.identity.inputs) == inputs:
        overwrite = overwrite or {**manifest.identity.config, "answers": ""} == {**config, "answers": ""}

    def parts() -> Parts:
        for shard in shards:
            yield partial(_part, shard, rows)

    stage = SourceStage(
        name=NAME,
        module=__name__,
        outputs={"proposals": PROPOSALS},
        config={**config, "answers": answers},
        inputs=inputs,
        metadata=metadata,
        parts=parts,
        shards=len(shards),
    )
    run_source(stage, run, progress=progress, overwrite=overwrite)
    return overwrite


def _part(shard: Sequence[Row], rows: Mapping[str, list[dict[str, Any]]]) -> StageResult:

    found = [
        {**one, "image_id": row["image_id"], "number": number}
        for row in shard
        for number, one in enumerate(rows.get(row["caption_id"], ()))
    ]
    return StageResult({"proposals": _table(found)}, {"proposals": len(found)})


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([{name: row[name] for name in PROPOSALS.names} for row in rows], PROPOSALS)


def _chosen(rows: Sequence[Row], config: ProposeConfig) -> set[str]:
    """The ids of the captions that are asked about. Raises ValueError for a split without captions."""
    check_splits(config.splits, (row["split"] for row in rows), "captions")
    ids = [
        row["caption_id"]
        for row in rows
        if row["language"] == LANGUAGE and (not config.splits or (row["split"] or UNSPLIT) in config.splits)
    ]
    if config.sample is not None and config.sample < len(ids):
        ids = Random(config.seed).sample(sorted(ids), config.sample)
    return set(ids)


def _siblings(shard: Sequence[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in shard:
        found.setdefault(row["image_id"], []).append(row["text"])
    return found


def _request(row: Row, prompt: Prompt, captions: Sequence[str], k: int) -> Request:
    listed = "\n".join(f"- {text}" for text in captions)
    system, user = prompt.filled(caption=row["text"], captions=listed, k=str(k))
    return chat(user, system)


def _rows(row: Row, prompt: Prompt, answer: Answer, k: int, temperature: float | None) -> Iterator[dict[str, Any]]:
    """The proposals in one answer; one with a problem if there is none in it."""
    own = {
        "caption_id": row["caption_id"],
        "asked": prompt.name,
        "source": answer.model,
        "prompt": prompt.sha256,
        "temperature": temperature,
        "fingerprint": answer.fingerprint,
    }
    if answer.status == "answered":
        try:
            yield from ({**own, "text": text, "problem": ""} for text in negatives_in(answer.text, k))
        except ValueError:
            yield {**own, "text": answer.text[:EXCERPT], "problem": "malformed"}
    elif answer.status == "refused":
        yield {**own, "text": answer.detail[:EXCERPT], "problem": "refused"}


def acceptance(counts: Mapping[str, int], answers: Answers | None) -> str:
    """Lines with the share of proposals that are kept, and what they cost. counts: of the judging stage."""
    kept = sum(n for name, n in counts.items() if name.endswith(".rows"))
    lines = []
    if answers is not None:
        asked = answers.counts
        total = sum(asked[name] for name in ("answered", "refused", "not_asked"))
        lines.append(
            f"{total:,} requests: {asked['answered']:,} answered ({asked['cached']:,} from the cache), "
            f"{asked['refused']:,} refused, {asked['not_asked']:,} not sent as the budget is spent; "
            f"spent now: {answers.spent.requests:,} requests, {answers.spent.tokens:,} tokens"
        )
        if kept:
            lines.append(f"requests per 1,000 negatives kept: {1000 * asked['answered'] / kept:,.0f}")
    return "\n".join(lines)
