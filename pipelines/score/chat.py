"""`endpoint:URL#MODEL`: a vision-language model behind an OpenAI-compatible chat API is asked about each pair: which of
caption and negative describes the image, in each order, since models prefer one letter, with and without the image; and
whether each describes it. An answer that is neither of the two offered is undecided, and never right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ..endpoint.client import Endpoint, cache_path, collect
from ..endpoint.messages import EndpointConfig, Request, chat, without_thoughts
from ..engine.progress import Progress
from .protocols import Measured, grouped
from .test_set import ScoreConfig, TestSet

WHICH = "Which caption describes the image?\nA. {}\nB. {}\nAnswer with A or B only."
BLIND = "Which caption is more likely to be true of the image that it was written for?\nA. {}\nB. {}\n"
WITHOUT = BLIND + "You cannot see the image. Answer with A or B only."
IS_IT = 'Does this caption describe the image? "{}"\nAnswer with yes or no only.'
WANTED = ("A", "B", "A", "B", "yes", "no")  # two orders, two orders without image, the caption, the negative
LIMITS = ("max_tokens", "concurrency", "timeout", "attempts", "max_requests")  # options of both configs
FILLER = r"\W*(?:(?:the )?(?:correct |best |right )?(?:answer|option|caption)(?: is)?\W*)?"
LETTER = re.compile(FILLER + r"([AB])(?=\W*$|[.):,*\n]|\s+is\b)", re.IGNORECASE)
YES = re.compile(FILLER + r"(yes|no)\b", re.IGNORECASE)


def ask(
    rest: str, named: str, tests: TestSet, place: Path, config: ScoreConfig, progress: Progress
) -> tuple[list[Measured], dict[str, int]]:
    """Ask about the first negative of each caption and operator; answers are kept in `place`. rest: `URL#MODEL`; named:
    the whole. Returns what is right (half in `pairs` and `half-truth` for one of the orders) and counts. Pairs beyond
    the budget are left out and counted. Raises ValueError for another form or without image files, EndpointError.
    """
    url, _, name = rest.rpartition("#")
    if not url or not name:
        raise ValueError(f"endpoint must be endpoint:URL#MODEL, was: endpoint:{rest}")
    if any(file is None for file in tests.files):
        raise ValueError(f"{named} needs the image files: --images FOLDER")
    first = tests.pairs[tests.pairs["first"]]
    if not len(first):
        raise ValueError(f"{named} is asked about captions and negatives of one image, there are none")
    limits = {name: getattr(config, name) for name in LIMITS}
    with Endpoint(
        EndpointConfig(url=url, model=name, temperature=0.0, **limits), cache_path(place), "score"
    ) as endpoint:
        answers = collect("score", endpoint, _requests(tests, first), progress, len(WANTED) * len(first)).answers
    by_pair = [answers[start : start + len(WANTED)] for start in range(0, len(answers), len(WANTED))]
    asked = np.array([all(answer.status != "budget" for answer in some) for some in by_pair], bool)
    if not asked.any():
        raise ValueError(f"{named}: the budget is spent before any pair was asked: raise max_requests")
    readers = (letter, letter, letter, letter, yes, yes)
    whole = (some for some, kept in zip(by_pair, asked, strict=True) if kept)
    said = np.array([[read(one.text) for read, one in zip(readers, some, strict=True)] for some in whole])
    kept = first[asked]
    counts = {
        "images": kept["image"].nunique(),
        "pairs": len(kept),
        "undecided answers": int((said == "").sum()),
        "pairs not asked, the budget is spent": len(first) - len(kept),
    }
    right = (said == WANTED).astype(float)
    seen = right[:, :2]
    unseen = right[:, 2:4]
    each = right[:, 4:].prod(1)
    of, image, adds = (kept[name].to_numpy() for name in ("operator", "image", "adds"))
    measured = [
        *grouped(tests.groups, "pairs", of, image, seen.mean(1), unseen.mean(1)),
        *grouped(tests.groups, "half-truth", of[adds], image[adds], seen[adds].mean(1), unseen[adds].mean(1)),
        *grouped(tests.groups, "both orders", of, image, seen.prod(1), unseen.prod(1)),
        *grouped(tests.groups, "yes or no", of, image, each),
    ]
    return measured, counts


def _requests(tests: TestSet, pairs: pd.DataFrame) -> Iterator[Request]:
    """The requests of each pair, one pair after the other, so that a budget covers whole pairs."""
    for image, *texts in pairs[["image", "true", "false"]].itertuples(index=False):
        file = tests.files[image]
        assert file is not None
        said = [tests.texts[text] for text in texts]
        for question, images in ((WHICH, [file]), (WITHOUT, [])):
            for pair in (said, said[::-1]):
                yield chat(question.format(*pair), images=images)
        for text in said:
            yield chat(IS_IT.format(text), images=[file])


def letter(text: str) -> str:
    """ "A" or "B", if an answer begins with one of them, in any of the usual ways; else ""."""
    found = LETTER.match(without_thoughts(text).strip())
    return found[1].upper() if found else ""


def yes(text: str) -> str:
    """ "yes" or "no", if an answer begins with one of them; else ""."""
    found = YES.match(without_thoughts(text).strip())
    return found[1].lower() if found else ""
