"""`endpoint:URL#MODEL`: a vision-language model behind an OpenAI-compatible chat API is asked about each pair.

Two-way: which of caption and negative describes the image, once in each order, since models prefer one of the letters.
Yes or no: does each of them describe the image. The two-way questions are asked without the image, too. An answer that
is neither of the two offered is undecided, and never right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..endpoint.client import Endpoint, cache_path, collect
from ..endpoint.messages import Answer, EndpointConfig, Request, chat
from ..engine.progress import Progress
from .blind import Baseline
from .config import ScoreConfig
from .intervals import Cases, Percent, percents
from .report import ModelScores, Score
from .test_set import TestSet

WHICH = "Which caption describes the image?\nA. {}\nB. {}\nAnswer with A or B only."
BLIND = "Which caption is more likely to be true of the image that it was written for?\nA. {}\nB. {}\n"
WITHOUT = BLIND + "You cannot see the image. Answer with A or B only."
IS_IT = 'Does this caption describe the image? "{}"\nAnswer with yes or no only.'
ASKED = 6  # requests per pair: two orders, two orders without image, the caption, the negative
THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
FILLER = r"\W*(?:(?:the )?(?:correct |best |right )?(?:answer|option|caption)(?: is)?\W*)?"
LETTER = re.compile(FILLER + r"([AB])(?=\W*$|[.):,*\n]|\s+is\b)", re.IGNORECASE)
YES = re.compile(FILLER + r"(yes|no)\b", re.IGNORECASE)


class Measured(NamedTuple):
    """Which rows of `tests.pairs` were answered wholly, and what was right: (n,) each, two-way the mean of two orders.

    undecided: answers that were neither of the two offered, or refused by the server.
    """

    rows: np.ndarray
    two_way: np.ndarray
    both_orders: np.ndarray
    blind: np.ndarray
    blind_both: np.ndarray
    yes_or_no: np.ndarray
    undecided: int


def score_endpoint(
    rest: str,
    tests: TestSet,
    place: Path,
    model: str,
    blind: dict[tuple[str, str], Baseline],
    config: ScoreConfig,
    progress: Progress,
) -> ModelScores:
    """Ask a model about the first negative of each caption and operator; answers are kept in the folder `place`.

    rest: `URL#MODEL`. Raises ValueError for another form or without image files, EndpointError if the endpoint cannot
    be used. Pairs that the budget does not reach are left out and counted.
    """
    url, sharp, name = rest.rpartition("#")
    if not sharp or not url or not name:
        raise ValueError(f"endpoint must be endpoint:URL#MODEL, was: endpoint:{rest}")
    if not isinstance(place, Path):
        raise ValueError(f"{model}: the answers of an endpoint are kept beside the run, which must be on a local disk")
    if any(file is None for file in tests.files):
        raise ValueError(f"{model} needs the image files: --images FOLDER")
    if not tests.first.any():
        raise ValueError(f"{model} is asked about captions and negatives of one image, there are none")
    about = EndpointConfig(
        url,
        name,
        temperature=0.0,
        max_tokens=config.max_tokens,
        concurrency=config.concurrency,
        timeout=config.timeout,
        attempts=config.attempts,
        max_requests=config.max_requests,
    )
    rows = np.flatnonzero(tests.first)
    with Endpoint(about, cache_path(place), "score") as endpoint:
        found = collect("score", endpoint, _requests(tests, rows), progress, ASKED * len(rows))
    measured = _measured(rows, found.answers)
    if not len(measured.rows):
        raise ValueError(f"{model}: the budget is spent before any pair was asked: raise max_requests")
    counts = {
        "images": len(np.unique(tests.pairs[measured.rows, 0])),
        "pairs": len(measured.rows),
        "undecided answers": measured.undecided,
        "pairs not asked, the budget is spent": len(rows) - len(measured.rows),
        "images left out, missing": tests.missing,
    }
    return ModelScores(model, tuple(_scores(tests, measured, blind, config)), counts)


def _requests(tests: TestSet, rows: np.ndarray) -> Iterator[Request]:
    """The ASKED requests of each pair, one pair after the other, so that a budget covers whole pairs."""
    for image, true, false, _ in tests.pairs[rows].tolist():
        file = tests.files[image]
        assert file is not None
        said = tests.texts[true], tests.texts[false]
        for pair in (said, said[::-1]):
            yield chat(WHICH.format(*pair), images=[file])
        for pair in (said, said[::-1]):
            yield chat(WITHOUT.format(*pair))
        for text in said:
            yield chat(IS_IT.format(text), images=[file])


def letter(text: str) -> str:
    """ "A" or "B", if an answer begins with one of them, in any of the usual ways; else ""."""
    found = LETTER.match(THOUGHT.sub("", text).strip())
    return found[1].upper() if found else ""


def yes(text: str) -> str:
    """ "yes" or "no", if an answer begins with one of them; else ""."""
    found = YES.match(THOUGHT.sub("", text).strip())
    return found[1].lower() if found else ""


def _measured(rows: np.ndarray, answers: tuple[Answer, ...]) -> Measured:
    kept, right, undecided = [], [], 0
    for row, start in zip(rows.tolist(), range(0, len(answers), ASKED), strict=True):
        some = answers[start : start + ASKED]
        if any(answer.status == "budget" for answer in some):
            continue
        said = [letter(answer.text) for answer in some[:4]] + [yes(answer.text) for answer in some[4:]]
        undecided += said.count("")
        kept.append(row)
        right.append([got == wanted for got, wanted in zip(said, ("A", "B", "A", "B", "yes", "no"), strict=True)])
    found = np.array(right, float).reshape(-1, ASKED)
    seen, unseen, asked = found[:, :2], found[:, 2:4], found[:, 4:]
    means = seen.mean(1), seen.prod(1), unseen.mean(1), unseen.prod(1)
    return Measured(np.array(kept, np.int64), *means, asked.prod(1), undecided)


def _scores(
    tests: TestSet, measured: Measured, baselines: dict[tuple[str, str], Baseline], config: ScoreConfig
) -> Iterator[Score]:
    """Scores by group: pairs and half-truths (both orders count half), both orders, yes or no."""
    image, operator = tests.pairs[measured.rows, 0], tests.operator[measured.rows]
    adds = tests.adds[measured.rows]
    kinds = (
        ("pairs", measured.two_way, measured.blind, np.ones(len(adds), bool)),
        ("half-truth", measured.two_way, measured.blind, adds),
        ("both orders", measured.both_orders, measured.blind_both, np.ones(len(adds), bool)),
        ("yes or no", measured.yes_or_no, None, np.ones(len(adds), bool)),
    )
    wanted, cases = [], []
    for protocol, right, without, some in kinds:
        for group, inside in tests.groups.items():
            shown = inside[operator] & some
            if shown.any():
                wanted.append((protocol, group, without is not None))
                cases += [Cases(each[shown], image[shown]) for each in (right, without) if each is not None]
    values = iter(percents(cases, len(tests.image_ids), config.resamples, config.seed))
    for protocol, group, has_blind in wanted:
        model = next(values)
        without_image: Percent | None = next(values) if has_blind else None
        yield Score(protocol, group, model, without_image, baselines.get((protocol, group)))
