"""A cloze model whose units get the probabilities that they have in some captions."""

import numpy as np
import pytest

from negcap.augment.cloze.adaptation import EVERY_UNIT, adapted, fit_unit_factors
from negcap.augment.cloze.model import cloze_model
from negcap.augment.language.parse import parse

AERIAL = ["many storage tanks are near some green trees .", "several tanks are in a factory ."]


def test_what_the_captions_have_becomes_likelier_and_probabilities_still_add_up_to_about_one():
    model = cloze_model()
    factors = fit_unit_factors(parse(AERIAL * 20), model)
    assert factors["tanks"] > 10 and factors["street"] < 1 and EVERY_UNIT in factors
    new, texts = adapted(model, factors), [text.split() for text in AERIAL]
    before, after = model.read(texts), new.read(texts)
    assert np.mean(sum((text.scores for text in after), [])) > np.mean(sum((text.scores for text in before), [])) + 1
    vectors = np.concatenate([text.vectors for text in after])
    log_sums = np.log(np.exp((vectors @ new.embedding.T + new.bias).astype(float)).sum(axis=1))
    assert log_sums.mean() == pytest.approx(0.0, abs=0.7)


def test_no_factors_change_nothing():
    assert (adapted(cloze_model(), {}).bias == cloze_model().bias).all()
