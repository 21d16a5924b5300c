"""`endpoint:URL#MODEL`: a vision-language model behind an OpenAI-compatible chat API is asked about each pair: which of
caption and negative describes the image, in each order, since models prefer one letter, with and without the image; and
whether each describes it. An answer that is neither of the two offered is undecided, and never right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..endpoint.client import Endpoint, cache_path, collect
from ..endpoint.messages import ChatAnswer, EndpointConfig, Request, chat, without_thoughts
from ..engine.progress import Progress
from .protocols import ProtocolOutcome, outcomes_by_group
from .test_set import ScoreConfig, TestSet

WHICH = "Which caption describes the image?\nA. {}\nB. {}\nAnswer with A or B only."
BLIND = "Which caption is more likely to be true of the image that it was written for?\nA. {}\nB. {}\n"
WITHOUT = BLIND + "You cannot see the image. Answer with A or B only."
IS_IT = 'Does this caption describe the image? "{}"\nAnswer with yes or no only.'
WANTED = ("A", "B", "A", "B", "yes", "no")  # two orders, two orders without image, the caption, the negative
LIMITS = ("max_tokens", "concurrency", "timeout", "attempts", "max_requests")  # of both ScoreConfig and EndpointConfig
# What models say before the letter, as in "The correct answer is: **A**". After the letter the sentence must end:
# "A dog runs." is no answer.
FILLER = r"\W*(?:(?:the )?(?:correct |best |right )?(?:answer|option|caption)(?: is)?\W*)?"
LETTER = re.compile(FILLER + r"([AB])(?=\W*$|[.):,*\n]|\s+is\b)", re.IGNORECASE)
YES = re.compile(FILLER + r"(yes|no)\b", re.IGNORECASE)


class Asked(NamedTuple):
    """What an endpoint has answered: outcomes by protocol, and counts of images, pairs and answers."""

    outcomes: list[ProtocolOutcome]
    counts: dict[str, int]


def ask(address: str, model: str, tests: TestSet, place: Path, config: ScoreConfig, progress: Progress) -> Asked:
    """Ask about the first negative of each caption and operator. Pairs beyond the budget are left out and counted.

    Args:
        address: `URL#MODEL`.
        model: the whole name of the model, for messages.
        tests: what is asked about.
        place: the folder where answers are kept.
        config: the limits of requests.
        progress: told of every answer.

    Raises:
        ValueError: another form of address, no image files, or no pair to ask about.
        EndpointError: the endpoint does not answer as it should.
    """
    url, _, name = address.rpartition("#")
    if not url or not name:
        raise ValueError(f"endpoint must be endpoint:URL#MODEL, was: endpoint:{address}")
    tests.image_files(model)
    pairs = tests.first_pairs
    if not len(pairs):
        raise ValueError(f"{model} is asked about captions and negatives of one image, there are none")
    # Temperature 0: the same pair gets the same answer, as far as the server allows.
    limits = {name: getattr(config, name) for name in LIMITS}
    endpoint_config = EndpointConfig(url=url, model=name, temperature=0.0, **limits)
    with Endpoint(endpoint_config, cache_path(place), "score") as endpoint:
        answers = collect(
            "score", endpoint, _requests_of_pairs(tests, pairs), progress, len(WANTED) * len(pairs)
        ).answers

    answers_of_pair = [answers[start : start + len(WANTED)] for start in range(0, len(answers), len(WANTED))]
    # A pair that the budget covers in part says nothing of both orders, so it counts as not asked.
    asked = np.array([all(answer.status != "budget" for answer in of_pair) for of_pair in answers_of_pair], bool)
    if not asked.any():
        raise ValueError(f"{model}: the budget is spent before any pair was asked: raise max_requests")
    # (pairs asked, 6), in the order of WANTED
    replies = np.array(
        [_read_replies(of_pair) for of_pair, is_asked in zip(answers_of_pair, asked, strict=True) if is_asked]
    )
    pairs = pairs[asked]
    counts = {
        "images": pairs["image"].nunique(),
        "pairs": len(pairs),
        "undecided answers": int((replies == "").sum()),
        "pairs not asked, the budget is spent": int((~asked).sum()),
    }
    is_right = replies == WANTED  # each reply compared with the one wanted there
    return Asked(_outcomes_of_answers(tests, pairs, is_right.astype(float)), counts)


def _read_replies(answers: Sequence[ChatAnswer]) -> list[str]:
    """What is decided in the answers about a pair, in the order of WANTED; "" for one that is undecided."""
    which = [read_letter(answer.text) for answer in answers[:4]]
    is_it = [read_yes_or_no(answer.text) for answer in answers[4:]]
    return which + is_it


def _outcomes_of_answers(tests: TestSet, pairs: pd.DataFrame, right: np.ndarray) -> list[ProtocolOutcome]:
    """What is right of pairs by protocol; in `pairs` and `half-truth` a pair is half right if one of its orders is.

    Args:
        tests: the test set, for its groups of operators.
        pairs: those that were asked about, rows of `TestSet.pairs`.
        right: (pairs, 6) 1 or 0, whether each answer is the one of WANTED.
    """
    seen = right[:, :2]  # both orders, asked with the image
    unseen = right[:, 2:4]  # and without it
    is_it = right[:, 4:]  # "yes" to the caption, "no" to the negative
    operator = pairs["operator"].to_numpy()
    image = pairs["image"].to_numpy()
    adds = pairs["adds"].to_numpy()
    groups = tests.groups
    return [
        *outcomes_by_group(groups, "pairs", operator, image, seen.mean(1), unseen.mean(1)),
        *outcomes_by_group(groups, "half-truth", operator[adds], image[adds], seen[adds].mean(1), unseen[adds].mean(1)),
        *outcomes_by_group(groups, "both orders", operator, image, seen.prod(1), unseen.prod(1)),
        *outcomes_by_group(groups, "yes or no", operator, image, is_it.prod(1)),
    ]


def _requests_of_pairs(tests: TestSet, pairs: pd.DataFrame) -> Iterator[Request]:
    """The requests of each pair, one pair after the other, so that a budget covers whole pairs."""
    columns = (pairs["image"].tolist(), pairs["true"].tolist(), pairs["false"].tolist())
    for image, true, false in zip(*columns, strict=True):
        file = tests.images[image].file
        assert file is not None  # `ask` has looked
        captions = (tests.texts[true], tests.texts[false])
        swapped = (tests.texts[false], tests.texts[true])
        # The order of WANTED: two orders with the image, two without, then each caption alone.
        for question, images in ((WHICH, [file]), (WITHOUT, [])):
            for options in (captions, swapped):
                yield chat(question.format(*options), images=images)
        for caption in captions:
            yield chat(IS_IT.format(caption), images=[file])


def read_letter(text: str) -> str:
    """ "A" or "B", if an answer begins with one of them, in any of the usual ways; else ""."""
    match = LETTER.match(without_thoughts(text).strip())
    return match[1].upper() if match else ""


def read_yes_or_no(text: str) -> str:
    """ "yes" or "no", if an answer begins with one of them; else ""."""
    match = YES.match(without_thoughts(text).strip())
    return match[1].lower() if match else ""
