"""Why there are no negatives."""

from typing import Any

import pytest

import negcap
from negcap.pipelines.report.summary import explain_no_negatives
from negcap.schemas.captions import PARSES

NOTHING = "noun, numeral, shuffle, preposition found nothing to change"
GERMAN = ["Ein Hund schläft auf dem roten Sofa.", "Zwei Männer reiten am Strand."]


@pytest.mark.parametrize(("sentences", "settings", "reason"), [
    (GERMAN, {}, r"only \d of \d+ words are English"),
    (["A dog sleeps on a couch.", "A man rides a horse."], {"lexicon": "own"}, r"vocabulary has only \d+ words"),
    (["Hello.", "Thanks!"], {}, f'{NOTHING}. The first caption, "Hello.", was read as without any content word'),
    (["A dog sleeps."], {"operators": "swap_attribute"}, "swap_attribute found nothing to change.* excluded=true"),
    (["A man rides a horse."], {"operators": "noun", "max_true": 0.0}, r"all candidates .* \(.*likely_true \d+"),
])  # fmt: skip
def test_the_reason_is_told(sentences: list[str], settings: dict[str, Any], reason: str) -> None:
    with pytest.warns(UserWarning, match=f"no negatives: .*{reason}"):
        assert negcap.negatives(sentences, **{"lexicon": "reference", **settings}).empty


def test_captions_in_another_language_are_a_reason_and_paraphrases_are_not(recwarn: pytest.WarningsRecorder) -> None:
    assert "no caption is in English" in explain_no_negatives(PARSES.empty_table(), 1000, {}, ("noun",))
    assert negcap.negatives(["A cat next to a dog."], operators="paraphrase").empty
    assert not recwarn.list
