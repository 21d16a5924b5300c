"""Stage vet: language models read negatives, blind or with the photo -> verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from ...augment.reproducible import record_rng
from ...augment.settings import AtLeastOne, Operators, Seed, Settings, Splits
from ...schemas.negatives import POSITIVE, VERDICTS
from ..endpoint.client import Answers, Endpoint, collect
from ..endpoint.messages import Request, chat, json_in
from ..engine.manifest import describe, read_manifest
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.tables import has_table, hash_inputs, shards_of
from ..prompts import Prompt, load
from ..tables.columns import column_filter
from ..tables.images import Images
from ..tables.pairs import with_true

NAME = "vet"
COLUMNS = ("negative_id", "caption_id", "image_id", "split", "family", "operator", "caption", "text", "replaced")
CAPTION = "caption"
NEGATIVE = "negative"
OTHER = {CAPTION: NEGATIVE, NEGATIVE: CAPTION}
Row = dict[str, Any]


class VetConfig(Settings):
    """Which negatives are read, and how."""

    table: Literal["negatives", "refined"] = "negatives"
    readings: tuple[Literal["blind", "image"], ...] = Field(
        ("blind",),
        description="blind: rate pairs of texts in both orders, so that a preference for the first cancels out; image: "
        "rate the negative with the photo",
    )
    prompts: Path | None = Field(None, description="folder of edited prompts, by file name; the others are as shipped")
    operators: Operators = ()
    splits: Splits = ()
    sample: AtLeastOne | None = Field(None, description="rate only this many random negatives per operator; none: all")
    seed: Seed = 0
    images: Path | None = Field(None, description="folder of the image files, for --reading image")

    @model_validator(mode="after")
    def _check_images(self) -> Self:
        if "image" in self.readings and self.images is None:
            raise ValueError("reading image needs a folder of images")
        return self


def vet(run: Path, config: VetConfig, endpoint: Endpoint, execution: Execution) -> Answers:
    """Let a language model read negatives (of negation beside the true sentence), and write the table verdicts, a shard
    for each of negatives. Verdicts of other readers of the same negatives stay. An answer in another form is a row with
    a `problem`; questions beyond the budget have none. Raises FileNotFoundError without negatives, EndpointError as
    `Endpoint.ask`, OtherConfigError.
    """
    prompts: dict[str, Prompt] = {name: load(name, config.prompts) for name in config.readings}
    wanted = column_filter({"operator": config.operators, "split": config.splits}) & (pc.field("family") != POSITIVE)
    shards = [shard.read(COLUMNS).filter(wanted).to_pylist() for shard in shards_of(run, config.table)]
    chosen = _chosen(list(chain(*shards)), config)
    read = with_true(run, [row for row in chain(*shards) if row["negative_id"] in chosen])
    paired = {row["negative_id"]: row for row in read}
    photos = {} if config.images is None else _photos(run, Images(config.images))
    asked = [
        (number, *question)
        for number, shard in enumerate(shards)
        for row in shard
        if row["negative_id"] in paired
        for question in _questions(paired[row["negative_id"]], prompts, photos.get(row["image_id"]), endpoint.identity)
    ]
    requests = [request for *_, request in asked if request is not None]
    answers = collect(NAME, endpoint, (request() for request in requests), execution.progress, len(requests))
    left_out = ("prompts", "images", "readings")
    described = {name: describe(value) for name, value in vars(config).items() if name not in left_out}
    described |= {"model": endpoint.identity, "answers": answers.sha256}
    own = [{**described, "reading": name, "prompt": prompt.sha256} for name, prompt in prompts.items()]
    inputs = hash_inputs(run, (config.table,))
    rows, readers = _before(run, inputs, own, execution.overwrite)
    given = iter(answers.answers)
    for number, row, request in asked:
        if request is None:
            rows[number].append(row | {"problem": "no_image"})
        elif (answer := next(given)).status != "budget":
            verdict, problem = answer.read(partial(read_verdict, first=row["first"]))
            rows[number].append(row | {"fingerprint": answer.fingerprint, "problem": problem, **(verdict or {})})
    parts = [partial(_part, rows[number]) for number in range(len(shards))]
    execution = replace(execution, overwrite=True)
    run_source(run, NAME, {"verdicts": VERDICTS}, parts, {"readers": [*readers, *own]}, execution, inputs=inputs)
    return answers


def _before(
    run: Path, inputs: Mapping[str, str], own: Iterable[Mapping[str, Any]], overwrite: bool
) -> tuple[dict[int, list[Row]], list[Any]]:
    """The verdicts by shard, and configs, of other readers and readings. ValueError for other
    negatives, unless `overwrite`: then there are none.
    """
    rows: dict[int, list[Row]] = defaultdict(list)
    manifest = read_manifest(run / "verdicts") if has_table(run, "verdicts") else None
    if manifest is None or not manifest.complete:
        return rows, []
    if dict(manifest.identity.inputs) != dict(inputs):
        if not overwrite:
            raise ValueError(f"{run / 'verdicts'} is of other negatives: --overwrite replaces it")
        return rows, []
    new = {(one["model"]["model"], one["reading"]) for one in own}
    for number, shard in enumerate(shards_of(run, "verdicts")):
        rows[number] = [row for row in shard.read().to_pylist() if (row["reader"], row["reading"]) not in new]
    known = manifest.identity.config["readers"]
    return rows, [one for one in known if (one["model"]["model"], one["reading"]) not in new]


def _chosen(rows: Iterable[Row], config: VetConfig) -> set[str]:
    """The ids of the negatives that are read. Raises ValueError if there are none."""
    by_operator: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_operator[row["operator"]].append(row["negative_id"])
    if not by_operator:
        raise ValueError(f"there are no {config.table} of these operators and splits to read")
    chosen: set[str] = set()
    for operator, ids in by_operator.items():
        if config.sample is not None and config.sample < len(ids):
            ids = record_rng(config.seed, NAME, operator).sample(sorted(ids), config.sample)
        chosen.update(ids)
    return chosen


def _photos(run: Path, images: Images) -> dict[str, Path | None]:
    """The image file of each image_id; None if it is missing. Raises ValueError for a path out of the folder."""
    found: dict[str, Path | None] = {}
    for shard in shards_of(run, "captions"):
        table = shard.read(("image_id", "image"))
        for key, image in zip(table["image_id"].to_pylist(), table["image"].to_pylist(), strict=True):
            if key not in found:
                file = images.find(image)
                found[key] = None if file is None else images.folder / file
    return found


def plain(text: str) -> str:
    """A text as readers see it: without the punctuation at its end, in lower case, which could tell it apart."""
    return " ".join(text.split()).rstrip(" .").lower()


def _questions(
    row: Row, prompts: Mapping[str, Prompt], photo: Path | None, model: Mapping[str, Any]
) -> Iterator[tuple[Row, Callable[[], Request] | None]]:
    """What is asked of a negative: the row of its verdict, and what makes the request; None if a photo is lacking."""
    found: Row = dict.fromkeys(VERDICTS.names)
    found |= {name: row[name] for name in ("negative_id", "caption_id", "image_id", "operator")}
    found |= {"reader": str(model["model"]), "temperature": model["temperature"], "fingerprint": ""}
    texts = {CAPTION: plain(row["caption"]), NEGATIVE: plain(row["text"])}
    for name, first in (("blind", CAPTION), ("blind", NEGATIVE), ("image", "")):
        if name in prompts:
            said = {"a": texts[first], "b": texts[OTHER[first]]} if first else {"text": row["text"]}
            asked = {"reading": name, "first": first, "prompt": prompts[name].sha256}
            request = partial(_request, prompts[name], said, None if first else photo)
            yield found | asked, request if first or photo is not None else None


def _request(prompt: Prompt, said: Mapping[str, str], photo: Path | None) -> Request:
    system, user = prompt.filled(**said)
    return chat(user, system, [] if photo is None else [photo])


def read_verdict(text: str, first: str) -> Row:
    """The verdict in an answer (ValueError in another form). first: what stood first, or "" if the photo was seen."""
    value = json_in(text)
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")

    def truth(name: str) -> bool:
        found = {"true": True, "yes": True, "false": False, "no": False}.get(str(value.get(name)).strip().lower())
        if found is None:
            raise ValueError(f"{name} must be true or false")
        return found

    found: Row = {"confidence": None}
    sure = value.get("confidence")
    if isinstance(sure, int | float) and not isinstance(sure, bool) and 0 <= sure <= 1:
        found["confidence"] = float(sure)
    if not first:
        return found | {"false": truth("false"), "odd": NEGATIVE if truth("odd") else "none"}
    sides = {"a": first, "b": OTHER[first]}
    choice, odd = (str(value.get(name, "")).strip().lower() for name in ("choice", "odd"))
    if choice not in sides or odd not in (*sides, "none", "both"):
        raise ValueError("choice must be A or B, odd none, A, B or both")
    return found | {"told": sides[choice] == CAPTION, "odd": sides.get(odd, odd), "both_true": truth("both")}


def _part(rows: Sequence[Row]) -> StageResult:
    problems = Counter(f"problem.{row['problem']}" for row in rows if row["problem"])
    return StageResult({"verdicts": pa.Table.from_pylist(list(rows), VERDICTS)}, {"verdicts": len(rows), **problems})
