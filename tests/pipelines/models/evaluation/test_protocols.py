"""Protocols on a few texts whose vectors are given."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.config import EvaluateConfig
from negcap.pipelines.models.data import Captions, Corpus, RunTexts
from negcap.pipelines.models.evaluation.protocols import Evaluation, choose_attacks, complete_captions, run_protocols
from negcap.pipelines.models.evaluation.retrieval import EmbeddedSplit
from negcap.pipelines.models.ranking import TIE
from negcap.pipelines.models.similarities import COSINE
from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary

OPERATORS = ("numeral", "noun", "uniform_noun", "uniform_object", "object", "shuffle")
CAPTIONS = torch.arange(6)  # two of each of three images


class Given:
    """A model whose vectors of texts (n, d) are given."""

    similarity = COSINE

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        return self.vectors[rows]


def corpus_of(negatives: Sequence[tuple[int, str, bool, bool]]) -> Corpus:
    """Two captions of each of three images, and negatives as (caption, operator, replaced and put in a plural)."""
    caption, operator, was, becomes = zip(*negatives, strict=True)
    ids, image_ids = ([f"{kind}{n}" for n in range(count)] for kind, count in (("c", 6), ("i", 3)))
    texts, splits, image = pa.array(ids), pa.array(["test"] * 6), CAPTIONS // 2
    human, language = torch.ones(6, dtype=torch.bool), torch.zeros(6, dtype=torch.long)
    total = 6 + len(negatives)
    number = torch.tensor([OPERATORS.index(name) for name in operator])
    return Corpus(
        captions=Captions(ids, texts, splits, image_ids, image, human, language, ("en",)),
        vocabularies={"en": WordVocabulary(SPECIALS)},
        texts=RunTexts(torch.zeros(total, dtype=torch.int32), torch.arange(total + 1), 6),
        negative_caption=torch.tensor(caption),
        operator=number,
        family=number,
        draw=torch.arange(len(negatives), dtype=torch.int32),
        was_plural=torch.tensor(was),
        is_plural=torch.tensor(becomes),
        concreteness=torch.zeros(len(negatives)),
        known=torch.ones(len(negatives), dtype=torch.bool),
        row=torch.arange(len(negatives)),
        starts=torch.searchsorted(torch.tensor(caption), torch.arange(7)),
        operators=OPERATORS,
        families=OPERATORS,
        unknown_words={},
    )


def results(corpus: Corpus, scores: Sequence[Sequence[float]]) -> Evaluation:
    """Of texts with these similarities with the images 0, 1 and 2; images are the axes."""
    vectors = torch.tensor(scores)
    image = corpus.captions.image
    split = EmbeddedSplit(Given(vectors), corpus, CAPTIONS, torch.arange(3), image, torch.eye(3), vectors[:6])
    return run_protocols(split, choose_attacks(corpus, CAPTIONS, EvaluateConfig()))


def test_the_plural_split_has_all_captions_of_an_image_and_swaps_numbers_above_one() -> None:
    """VSE-C, Table 4: image 0 counts in one caption only, image 1 in none, image 2 in the other."""
    corpus = corpus_of(
        [
            (0, "numeral", True, True),  # the only one of caption 0 that may attack
            (0, "numeral", True, False),
            (1, "numeral", False, True),  # "a" -> plural, of a caption of a counting image
            (0, "noun", False, False),
            (2, "numeral", False, True),
            (5, "numeral", True, True),
        ]
    )
    metrics, lists, _ = results(corpus, [
        *([0.3, 0.0, 0.0], [0.6, 0.0, 0.0], [0.9, 0.5, 0.0], [0.9, 0.5, 0.0], [0.7, 0.0, 0.1], [0.0, 0.0, 0.5]),
        *([0.65, 0, 0], [1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0], [1.0, 1.0, 0], [0, 0, 0.4]),
    ])  # fmt: skip
    plural = metrics["plural"]
    assert (plural["images"], plural["captions"], plural["negatives"]) == (2, 4, 2)
    ranks = {name: dict(zip(rows["query"], rows["rank"], strict=True)) for name, rows in lists.groupby("candidates")}
    # image 0: its best caption has 0.6; of image 2's captions one is above (0.7); image 1's (0.9) are not candidates
    assert ranks["plural"] == {"i0": 2, "i2": 1} and ranks["plural:numeral"] == {"i0": 3, "i2": 1}
    assert plural["plain"]["mean rank"] == 1.5 and plural["numeral"]["mean rank"] == pytest.approx(2)


def test_a_pair_whose_scores_differ_by_rounding_alone_is_a_failure() -> None:
    corpus = corpus_of([(0, "noun", False, False), (2, "noun", False, False)])
    captions = [[0.5, 0, 0]] * 2 + [[0, 0.5, 0]] * 2 + [[0, 0, 0.5]] * 2
    pairs = results(corpus, [*captions, [0.5 - TIE / 4, 0, 0], [0, 0.5 - 4 * TIE, 0]]).pairs
    assert pairs["right"].tolist() == [False, True]


def test_complete_keeps_images_all_of_whose_captions_have_negatives_of_each_family() -> None:
    owners = [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5]  # caption 3 has one of each family, the others two
    kinds = ("numeral", "uniform_noun", "shuffle")
    corpus = corpus_of([(owner, kind, False, False) for kind in kinds for owner in owners])
    assert complete_captions(corpus, CAPTIONS, 1).tolist() == [0, 1, 2, 3, 4, 5]
    assert complete_captions(corpus, CAPTIONS, 2).tolist() == [0, 1, 4, 5]
    with pytest.raises(ValueError, match="none has captions with 3 negatives of noun, numeral, relation each"):
        complete_captions(corpus, CAPTIONS, 3)
