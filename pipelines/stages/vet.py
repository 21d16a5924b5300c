"""Stage vet: language models read negatives, blind or with the photo -> verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from ...augment.reproducible import record_rng
from ...augment.settings import AtLeastOne, Operators, Seed, Settings, Splits
from ...schemas.negatives import POSITIVE, VERDICTS
from ..endpoint.client import Answers, Endpoint, EndpointIdentity, collect
from ..endpoint.messages import Request, chat, json_in
from ..engine.manifest import describe, read_manifest
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.tables import has_table, hash_inputs, shards_of
from ..prompts import Prompt, load
from ..tables.columns import column_filter, image_paths
from ..tables.images import Images
from ..tables.pairs import with_true

NAME = "vet"
COLUMNS = ("negative_id", "caption_id", "image_id", "split", "family", "operator", "caption", "text", "replaced")
CAPTION = "caption"
NEGATIVE = "negative"
OTHER = {CAPTION: NEGATIVE, NEGATIVE: CAPTION}
TRUTH_WORDS = {"true": True, "yes": True, "false": False, "no": False}  # which models use, whatever they are asked for
# Each reading, and which text stands first: blind readers see the caption and the negative in both orders.
ORDERS = (("blind", CAPTION), ("blind", NEGATIVE), ("image", ""))
Row = dict[str, Any]  # a row of a table


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
        """Check that there are images to look at when negatives are to be vetted by them."""
        if "image" in self.readings and self.images is None:
            raise ValueError("reading image needs a folder of images")
        return self


def vet(run: Path, config: VetConfig, endpoint: Endpoint, execution: Execution) -> Answers:
    """Let a language model read negatives, and write the table verdicts, with a shard for each shard of negatives.

    A negative of `negation` is read beside the true sentence that it contradicts. Verdicts of other readers of the same
    negatives stay. An answer in another form than asked for is a row with a `problem`; questions beyond the budget have
    no rows.

    Args:
        run: the run.
        config: which negatives are read, and in which readings.
        endpoint: the language model.
        execution: how the stage is run, and whether it may replace the table.

    Raises:
        FileNotFoundError: the run has no negatives.
        EndpointError: the model cannot be reached, or does not answer as it should.
        OtherConfigError: the table was made with other settings.
    """
    prompts: dict[str, Prompt] = {name: load(name, config.prompts) for name in config.readings}
    wanted = column_filter({"operator": config.operators, "split": config.splits}) & (pc.field("family") != POSITIVE)
    shards = [shard.read(COLUMNS).filter(wanted).to_pylist() for shard in shards_of(run, config.table)]
    chosen = _choose_negatives(list(chain(*shards)), config)
    with_true_sentence = with_true(run, [row for row in chain(*shards) if row["negative_id"] in chosen])
    paired = {row["negative_id"]: row for row in with_true_sentence}
    photos = {} if config.images is None else _find_photos(run, Images(config.images))
    questions: list[VetQuestion] = []
    for number, shard in enumerate(shards):
        for row in shard:
            negative = paired.get(row["negative_id"])
            if negative is not None:
                photo = photos.get(row["image_id"])
                questions += _questions_about(number, negative, prompts, photo, endpoint.identity)
    requests = [question.request for question in questions if question.request is not None]
    answers = collect(NAME, endpoint, (request() for request in requests), execution.progress, len(requests))

    own = _describe_readers(config, prompts, endpoint.identity, answers.sha256)
    inputs = hash_inputs(run, (config.table,))
    others = _verdicts_of_others(run, inputs, own, execution.overwrite)
    rows = others.rows
    next_answer = iter(answers.answers)
    for question in questions:
        if question.request is None:
            rows[question.shard].append(question.row | {"problem": "no_image"})
            continue
        answer = next(next_answer)
        if answer.status != "budget":
            verdict, problem = answer.read(partial(read_verdict, first=question.row["first"]))
            columns_of_answer = {"fingerprint": answer.fingerprint, "problem": problem, **(verdict or {})}
            rows[question.shard].append(question.row | columns_of_answer)
    parts = [partial(_verdicts_table, rows[number]) for number in range(len(shards))]
    # Each new reader changes the config of the table, which lists all of them, so it must be overwritten. Where that is
    # not allowed, `_verdicts_of_others` has raised an error.
    execution = replace(execution, overwrite=True)
    run_source(run, NAME, {"verdicts": VERDICTS}, parts, {"readers": [*others.readers, *own]}, execution, inputs=inputs)
    return answers


def _describe_readers(
    config: VetConfig, prompts: Mapping[str, Prompt], model: EndpointIdentity, answers: str
) -> list[Row]:
    """All that determines the verdicts of a model, a row for each reading: if a row changes, they are made anew.

    Args:
        config: of the stage. `prompts` and `readings` are left out, as each row has its own; so is `images`, a folder.
        prompts: the prompt of each reading, by its name.
        model: what the endpoint says of its model.
        answers: the hash of the model's answers.
    """
    left_out = ("prompts", "images", "readings")
    described = {name: describe(value) for name, value in vars(config).items() if name not in left_out}
    described |= {"model": model, "answers": answers}
    return [{**described, "reading": name, "prompt": prompt.sha256} for name, prompt in prompts.items()]


class VerdictsOfOthers(NamedTuple):
    """The verdicts that a run has by other models or readings. rows: by number of the shard. readers: their configs."""

    rows: dict[int, list[Row]]
    readers: list[Row]


def _verdicts_of_others(run: Path, inputs: Mapping[str, str], own: Iterable[Row], overwrite: bool) -> VerdictsOfOthers:
    """The verdicts that stay in the table beside those that are made now.

    Args:
        run: the run.
        inputs: the negatives that are read now.
        own: the configs of the verdicts that are made now.
        overwrite: whether verdicts of other negatives may be replaced: then none stay.

    Raises:
        ValueError: the table has verdicts of other negatives, and must not be overwritten.
    """
    rows: dict[int, list[Row]] = defaultdict(list)
    manifest = read_manifest(run / "verdicts") if has_table(run, "verdicts") else None
    if manifest is None or not manifest.complete:
        return VerdictsOfOthers(rows, [])
    if dict(manifest.identity.inputs) != dict(inputs):
        if not overwrite:
            raise ValueError(f"{run / 'verdicts'} is of other negatives: --overwrite replaces it")
        return VerdictsOfOthers(rows, [])
    new = {(reader["model"]["model"], reader["reading"]) for reader in own}
    for number, shard in enumerate(shards_of(run, "verdicts")):
        rows[number] = [row for row in shard.read().to_pylist() if (row["reader"], row["reading"]) not in new]
    known = manifest.identity.config["readers"]
    others = [reader for reader in known if (reader["model"]["model"], reader["reading"]) not in new]
    return VerdictsOfOthers(rows, others)


def _choose_negatives(rows: Iterable[Row], config: VetConfig) -> set[str]:
    """The negative_ids of the negatives that are read: all, or a random sample of each operator.

    rows: of the table of negatives. Raises ValueError if there are none.
    """
    ids_of_operator: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        ids_of_operator[row["operator"]].append(row["negative_id"])
    if not ids_of_operator:
        raise ValueError(f"there are no {config.table} of these operators and splits to read")
    chosen: set[str] = set()
    for operator, ids in ids_of_operator.items():
        if config.sample is not None and config.sample < len(ids):
            ids = record_rng(config.seed, NAME, operator).sample(sorted(ids), config.sample)
        chosen.update(ids)
    return chosen


def _find_photos(run: Path, images: Images) -> dict[str, Path | None]:
    """The image file of each image_id; None if it is missing. Raises ValueError for a path out of the folder."""
    photos: dict[str, Path | None] = {}
    for image_id, path in image_paths(run).items():
        file = images.find(path)
        photos[image_id] = None if file is None else images.folder / file
    return photos


def normalise_text(text: str) -> str:
    """A text in lower case and without a full stop, as models read it: either could tell a negative from a caption."""
    return " ".join(text.split()).rstrip(" .").lower()


class VetQuestion(NamedTuple):
    """A question about a negative.

    Attributes:
        shard: the number of the shard that the verdict will be in.
        row: of the verdict, with nulls for what the answer will say.
        request: makes the request, so that photos are only read when they are sent; None if there is no photo.
    """

    shard: int
    row: Row
    request: Callable[[], Request] | None


def _questions_about(
    shard: int, negative: Row, prompts: Mapping[str, Prompt], photo: Path | None, model: Mapping[str, Any]
) -> Iterator[VetQuestion]:
    """The questions about a negative: two if it is read blind, with either text first, and one with the photo.

    Args:
        shard: the number of its shard.
        negative: its row, with the true sentence as `caption`.
        prompts: by the name of the reading, "blind" or "image"; a reading without a prompt is not asked about.
        photo: its file; None if it is missing, or no photos are read. Then the question has no request.
        model: the identity of the endpoint.
    """
    # The row of a verdict, null where the answer is not known yet.
    row: Row = dict.fromkeys(VERDICTS.names)
    row |= {name: negative[name] for name in ("negative_id", "caption_id", "image_id", "operator")}
    row |= {"reader": str(model["model"]), "temperature": model["temperature"], "fingerprint": ""}
    texts = {CAPTION: normalise_text(negative["caption"]), NEGATIVE: normalise_text(negative["text"])}
    for reading, first in ORDERS:
        if reading not in prompts:
            continue
        prompt = prompts[reading]
        asked = row | {"reading": reading, "first": first, "prompt": prompt.sha256}
        if reading == "blind":
            words = {"a": texts[first], "b": texts[OTHER[first]]}
            yield VetQuestion(shard, asked, partial(_fill_request, prompt, words, photo=None))
        else:
            request = None if photo is None else partial(_fill_request, prompt, {"text": negative["text"]}, photo)
            yield VetQuestion(shard, asked, request)


def _fill_request(prompt: Prompt, words: Mapping[str, str], photo: Path | None) -> Request:
    """The request with a prompt, filled with words, and a photo."""
    system, user = prompt.filled(**words)
    return chat(user, system, [] if photo is None else [photo])


def read_verdict(text: str, first: str) -> Row:
    """Read the verdict in a model's answer, such as {"choice": "A", "odd": "none", "both": "false"}.

    first: the text that was shown as A, "caption" or "negative"; "" if the negative alone was shown, with the photo.
    Returns columns of the table verdicts, with "caption" and "negative" instead of A and B. Raises ValueError for an
    answer in another form.
    """
    value = json_in(text)
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    verdict: Row = {"confidence": None}
    confidence = value.get("confidence")
    if isinstance(confidence, int | float) and not isinstance(confidence, bool) and 0 <= confidence <= 1:
        verdict["confidence"] = float(confidence)
    if not first:
        verdict["false"] = _read_truth(value, "false")
        verdict["odd"] = NEGATIVE if _read_truth(value, "odd") else "none"
        return verdict
    sides = {"a": first, "b": OTHER[first]}
    choice = str(value.get("choice", "")).strip().lower()
    odd = str(value.get("odd", "")).strip().lower()
    if choice not in sides or odd not in (*sides, "none", "both"):
        raise ValueError("choice must be A or B, odd none, A, B or both")
    verdict["told"] = sides[choice] == CAPTION
    verdict["odd"] = sides.get(odd, odd)
    verdict["both_true"] = _read_truth(value, "both")
    return verdict


def _read_truth(answer: Mapping[str, object], name: str) -> bool:
    """Whether an answer says that something is true. Raises ValueError if it does not say."""
    word = str(answer.get(name)).strip().lower()
    if word not in TRUTH_WORDS:
        raise ValueError(f"{name} must be true or false")
    return TRUTH_WORDS[word]


def _verdicts_table(rows: Sequence[Row]) -> StageResult:
    """The rows of a shard as the table verdicts, and counters: `verdicts`, and `problem.<name>` of unusable answers."""
    problems = Counter(f"problem.{row['problem']}" for row in rows if row["problem"])
    return StageResult({"verdicts": pa.Table.from_pylist(list(rows), VERDICTS)}, {"verdicts": len(rows), **problems})
