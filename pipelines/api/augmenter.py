"""Negative captions of batches of texts, for use during training."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ...augment.caption import from_parses
from ...augment.generate import NegativesConfig, generate_for_images
from ...augment.language.parse import parse_table
from ...augment.lexicon.lexicon import Lexicon
from ...augment.operators import OPERATORS
from ...augment.truth.estimates import Truth
from ...schemas.captions import BALANCE, LEXICON, TRUTH
from ...schemas.negatives import POSITIVE
from ..engine.stage import TableInMemory, collector_paused
from ..engine.tables import WholeTable
from ..stages.build import AUTO, LEXICON_VERBS, OWN, configure
from ..tables.corpus import given_table, load_balanced, load_cloze, load_truth, table_of_run
from .captions import check_sentences
from .functions import operator_names


class Augmenter:
    """Makes negatives of batches of texts: in a collate function, `datasets.map` or a DataLoader worker.

    Create it once and call it for every batch. It is picklable; its resources are loaded once per process, at the first
    call, which takes some seconds. A call takes texts, and gives for each a list of at most `n` negatives. Call it with
    many texts, in a collate function and not in `Dataset.__getitem__`: one core makes negatives of 48 texts per second
    one by one, of 154 in calls with 16 texts, and of 229 in calls with 128.

    Examples:
        >>> augment = Augmenter(n=2, seed=1)
        >>> [len(made) <= 2 for made in augment(["A dog sleeps on a couch.", "Two boys play football."])]
        [True, True]
    """

    def __init__(
        self,
        *,
        lexicon: str | PathLike[str] = "reference",
        operators: str | Sequence[str] = "vse-c",
        n: int = 4,
        seed: int = 0,
        max_true: float | None = None,
        spacy_model: str | None = None,
        cloze: str | PathLike[str] | None = None,
        preferred_unnatural: float | None = None,
        max_unnatural: float | None = None,
    ) -> None:
        """Store the settings; resources are loaded at the first call.

        Args:
            lexicon: `reference` (shipped), or the folder of a run whose tables lexicon, truth and balance are used.
            operators: a preset (`vse-c`, `univse`, `all`), an operator's name, or several names.
            n: the maximum number of negatives per text; they are taken from the operators in turn.
            seed: seed of the random choices; the same seed gives the same negatives.
            max_true: the highest allowed probability that a negative is true after all, estimated as the probability
                that one more caption of the image would say so; None: 0.025.
            spacy_model: an installed spaCy pipeline or its folder; None: the shipped parser.
            cloze: the file of a cloze model of your own, by which replacements are drawn; None: the shipped one.
            preferred_unnatural: the highest allowed probability, as estimated, that a rater calls a negative unnatural;
                None: 0.25. Lower ones give fewer and more natural negatives.
            max_unnatural: if one of the operators noun, preposition, object, attribute and shuffle would yield nothing
                for a text, its best candidate is still kept if the probability that a rater finds any fault with it
                (unnatural, or possible together with the text) is at most this; None: 0.35.

        Raises:
            ValueError: a setting has an invalid value, or a model cannot be read.
            FileNotFoundError: the lexicon or a model does not exist.
        """
        if n < 1:
            raise ValueError(f"n must be >= 1, was: {n}")
        if lexicon in (OWN, AUTO):
            raise ValueError("lexicon must be reference or a run: single batches are too small to count")
        self.n = n
        self._lexicon = fspath(lexicon)
        self._spacy_model = spacy_model
        # The hashes of the tables now: a worker that loads the tables later must get the same ones, or an error.
        tables = _lexicon_tables(self._lexicon)
        self._hashes = tuple("" if path.is_file() else table_of_run(path).sha256 for path in tables)
        names = tuple(name for name in operator_names(operators) if OPERATORS[name].family != POSITIVE)
        if not names:
            raise ValueError(f"operators must make negatives, was: {operators}")
        given: dict[str, object] = {
            "seed": seed,
            "operators": names,
            "per_family": n,
            "max_true": max_true,
            "cloze": cloze,
            "preferred_unnatural": preferred_unnatural,
            "max_unnatural": max_unnatural,
        }
        self._settings: NegativesConfig = configure("negatives", given)

    def __call__(
        self, texts: Sequence[str], *, images: Sequence[Hashable] | None = None, seed: int | None = None
    ) -> list[list[str]]:
        """Return one list per text with at most n negatives; empty if no operator applies.

        The same text, siblings and seed give the same negatives, whatever else is in the batch.

        Args:
            texts: a batch of captions.
            images: the image of each text, any hashable id. Texts of the same image are siblings: what one of them
                says is never made a negative of another. None: each text has an image of its own.
            seed: replaces the Augmenter's seed in this call, e.g. to get other negatives in each epoch.

        Raises:
            ValueError: `images` and `texts` have different lengths.
            TypeError: `texts` is a str, or one of the texts is not a str.
            DamagedShardError: the run that the lexicon is taken from was built anew after the Augmenter was made, and
                before this process loaded it.
        """
        if isinstance(texts, (str, bytes)):
            raise TypeError(f"texts must be a list of sentences, was: {type(texts).__name__}")
        check_sentences("texts", texts)
        settings = self._settings if seed is None else self._settings.changed(seed=seed)
        if images is not None and len(images) != len(texts):
            raise ValueError(f"images must have the length of texts, {len(texts)}, was: {len(images)}")
        texts = [" ".join(text.split()) for text in texts]  # as `build` writes captions: equal texts, equal negatives
        groups: dict[Hashable, list[int]] = {}  # by image, the positions of its texts in the batch
        for row, image in enumerate(range(len(texts)) if images is None else images):
            groups.setdefault(image, []).append(row)
        negatives: list[list[str]] = [[] for _ in texts]
        # The garbage collector would look for cycles of references, which a batch does not make.
        with collector_paused():
            resources = _load_resources(self._lexicon, self._hashes, settings.max_true, settings.cloze)
            # The text itself is the id: random choices are seeded by it, and so do not depend on the rest of the batch.
            empty = [""] * len(texts)
            table = pa.table({"caption_id": texts, "image_id": empty, "split": empty, "origin": empty, "text": texts})
            captions = from_parses(parse_table(table, self._spacy_model))
            # By image: the captions of an image are siblings, wherever they stand in the batch.
            siblings = [[captions[row] for row in rows] for rows in groups.values()]
            results = generate_for_images(siblings, resources.lexicon, settings, resources.truth).results
            rows_of_results = chain.from_iterable(groups.values())
            for row, by_operator in zip(rows_of_results, results, strict=True):
                texts_of_operators = [[negative.text for negative in accepted] for accepted, _ in by_operator.values()]
                negatives[row] = _take_in_turn(texts_of_operators, self.n)
        return negatives

    def __repr__(self) -> str:
        settings = self._settings
        operators = ", ".join(settings.operators)
        return f"Augmenter(lexicon={self._lexicon!r}, operators=({operators}), n={self.n}, seed={settings.seed})"


def _take_in_turn(texts_of_operators: Iterable[Sequence[str]], n: int) -> list[str]:
    """At most n different texts, taken from the operators in turn: the first of each, the second of each, and so on."""
    texts: dict[str, str] = {}  # by their lower case: two texts that differ only in capitals count as one
    # zip_longest gives None for an operator that has no more texts
    for text in filter(None, chain.from_iterable(zip_longest(*texts_of_operators))):
        texts.setdefault(text.lower(), text)
    return list(texts.values())[:n]


def _lexicon_tables(lexicon: str) -> list[Path]:
    """The tables lexicon, truth and balance of `reference`, which are files, or of a run, which are folders."""
    return [configure(verb, {"lexicon": lexicon}).lexicon for verb in LEXICON_VERBS]


class Resources(NamedTuple):
    """What all batches share: the balanced lexicon and the truth estimates."""

    lexicon: Lexicon
    truth: Truth


@lru_cache(maxsize=2)
def _load_resources(lexicon: str, hashes: tuple[str, ...], max_true: float, cloze: Path | None) -> Resources:
    """The resources of `reference` or of a run's folder, loaded once per process.

    Args:
        lexicon: `reference`, or the folder of a run.
        hashes: of the run's tables when the Augmenter was made; "" for tables that are files.
        max_true: see `Augmenter`.
        cloze: the file of a cloze model; None: the shipped one.

    Raises:
        DamagedShardError: the run was built anew since.
    """
    tables = []
    for path, sha256, schema in zip(_lexicon_tables(lexicon), hashes, (LEXICON, TRUTH, BALANCE), strict=True):
        tables.append(TableInMemory(given_table(WholeTable(path, sha256) if sha256 else path, schema)))
    entries, truth, balance = tables
    model = load_cloze(cloze)
    return Resources(load_balanced(entries, balance, model), load_truth(entries, truth, max_true, model))
