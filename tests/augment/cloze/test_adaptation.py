"""A cloze model whose units get the probabilities that they have in some captions."""

import numpy as np
import pytest

from negcap.augment.cloze.adaptation import EVERY_UNIT, adapted, fit_unit_factors
from negcap.augment.cloze.model import cloze_model
from negcap.augment.language.parse import parse

AERIAL = ["many storage tanks are near some green trees .", "several tanks are in a factory ."]


def test_what_the_captions_have_becomes_likelier_and_what_they_lack_less_likely() -> None:
    model = cloze_model()
    captions = parse(AERIAL * 20)
    factors = fit_unit_factors(captions, model)
    assert factors["tanks"] > 10 and factors["street"] < 1 and EVERY_UNIT in factors
    new = adapted(model, factors)
    texts = [caption.lowered for caption in parse(AERIAL)]
    before, after = (np.mean([score for text in one.read(texts) for score in text.scores]) for one in (model, new))
    assert after > before + 1


def test_probabilities_still_add_up_to_about_one() -> None:
    model = cloze_model()
    captions = parse(AERIAL * 20)
    new = adapted(model, fit_unit_factors(captions, model))
    vectors = np.concatenate([text.vectors for text in new.read([caption.lowered for caption in captions[:2]])])
    log_sums = np.log(np.exp((vectors @ new.embedding.T + new.bias).astype(float)).sum(axis=1))
    assert log_sums.mean() == pytest.approx(0.0, abs=0.7)


def test_no_factors_change_nothing() -> None:
    assert (adapted(cloze_model(), {}).bias == cloze_model().bias).all()
