from pathlib import Path

import pytest

from negcap.pipelines.cli.models import evaluated
from negcap.pipelines.tables import columns


@pytest.mark.parametrize(
    ("splits", "given", "taken"),
    [
        (("train", "dev"), None, "dev"),
        (("train", "dev", "test"), None, None),
        (("train", "val", "dev"), None, None),
        (("train", "dev"), "train", "train"),
    ],
)
def test_without_a_test_split_the_only_other_one_is_evaluated(
    splits: tuple[str, ...],
    given: str | None,
    taken: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(columns, "splits_of", lambda run: splits)
    assert evaluated(Path("run"), {"split": given} if given else {}).get("split") == taken
    assert capsys.readouterr().err == ("evaluating on split dev: there is no split test\n" if taken == "dev" else "")
