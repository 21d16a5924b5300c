import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.report.rows import change, has_colours, marked, pieces, print_rows
from negcap.pipelines.tables.columns import sample, table_of
from negcap.schemas.negatives import NEGATIVES, REJECTIONS
from tests.runs import write_run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def row(number: int, **changes: object) -> dict[str, Any]:
    """A negative, or a rejection, of a dog that became a horse."""
    return {
        **dict.fromkeys([*NEGATIVES.names, *REJECTIONS.names]),
        "negative_id": f"toy:{number}:0#noun:0", "caption_id": f"toy:{number}:0", "image_id": str(number),
        "split": "", "origin": "human", "family": "noun", "operator": "noun", "caption": "A dog runs.",
        "text": "A horse runs.", "replaced": "dog", "replacement": "horse", "replaced_synset": "dog.n.01",
        "edits": [{"start": 2, "end": 5, "old": "dog", "new": "horse"}], "reason": "unchanged", "draw": 0, **changes,
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [row(i, operator="noun" if i % 3 else "numeral") for i in range(100)]
    return write_run(tmp_path_factory.mktemp("run"), shards=4, negatives=rows, rejections=rows)


@pytest.mark.parametrize(("replaced", "replacement", "synset", "said"), [
    ("dog", "horse", "horse.n.01", "dog (dog.n.01) → horse (horse.n.01)"),
    ("dog | cat", "cat | dog", "cat.n.01", "dog (dog.n.01) ↔ cat (cat.n.01)"),
    ("dog | not cat", "cat | not dog", None, "dog (dog.n.01), not cat → cat, not dog"),
    ("", "dog | not car", "dog.n.01", "adds dog (dog.n.01), not car"),
    ("", "", None, ""),
])  # fmt: skip
def test_a_change_is_said_of_every_kind_of_edit(replaced, replacement, synset, said) -> None:
    synsets = {"replaced_synset": "dog.n.01" if replaced else None, "replacement_synset": synset}
    assert change(row(0, replaced=replaced, replacement=replacement, **synsets)) == said


def ids(rows: list[dict]) -> list[int]:
    return [int(r["image_id"]) for r in rows]


def test_a_sample_is_random_repeatable_and_in_order(run: Path) -> None:
    first = ids(sample(run, n=20))
    assert first == sorted(set(first)) == ids(sample(run, n=20)) != ids(sample(run, n=20, seed=1))
    assert len(first) == 20 and min(first) < 25 and max(first) >= 75
    assert ids(sample(run, n=1000)) == list(range(100))
    samples = [ids(sample(run, n=4, seed=seed, wanted={"operator": ["numeral"]})) for seed in range(40)]
    seen = Counter(number for numbers in samples for number in numbers)
    assert set(seen) <= set(range(0, 100, 3)) and len(seen) > 30 and max(seen.values()) < 20  # of 4.7 expected of each


def test_a_sample_of_one_reason(run: Path) -> None:
    assert len(sample(run, "rejections", 5, wanted={"operator": ["noun"], "reason": ["unchanged"]})) == 5
    with pytest.raises(ValueError, match="rejections has no rows with operator noun and reason same_quantity"):
        sample(run, "rejections", 5, wanted={"operator": ["noun"], "reason": ["same_quantity"]})
    with pytest.raises(FileNotFoundError, match="must be the folder of a run"):
        sample(run / "nowhere")


def test_edits_in_plain_text() -> None:
    for caption, edits, shown in (
        ("A dog runs.", [(2, 5, "dog", "horse")], "A [-dog-]{+horse+} runs."),
        ("A dog and a cat", [(2, 5, "dog", "cat"), (12, 15, "cat", "dog")], "A [-dog-]{+cat+} and a [-cat-]{+dog+}"),
        ("Dogs run", [(0, 0, "", "Two "), (4, 4, "", "!")], "{+Two +}Dogs{+!+} run"),
        ("Two dogs", [(0, 4, "Two ", "")], "[-Two -]dogs"),
    ):
        edited = [dict(zip(("start", "end", "old", "new"), edit, strict=True)) for edit in edits]
        assert marked({"caption": caption, "edits": edited}) == shown
        assert "".join(piece.text for piece in pieces(caption, edited) if piece.kind != "new") == caption


def test_markup_in_a_caption_stays_text() -> None:
    risky = row(1, caption="A dog [bold]runs[/bold] [link=file:///x]away[/link] :smile:\x1b[31m")
    terminal, plain = Terminal(), io.StringIO()
    print_rows([risky], terminal)
    assert "[bold]runs[/bold] [link=file:///x]away[/link] :smile:\N{REPLACEMENT CHARACTER}[31m" in terminal.getvalue()
    print_rows([risky], plain)
    head, shown = plain.getvalue().splitlines()
    assert shown.startswith("  A [-dog-]{+horse+} [bold]runs[/bold]")
    assert head == "toy:1:0  noun: dog (dog.n.01) → horse  rejected: unchanged"


@pytest.mark.parametrize(("stream", "variables", "coloured"), [
    (Terminal, {}, True),
    (io.StringIO, {}, False),
    (Terminal, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    (io.StringIO, {"FORCE_COLOR": "1"}, True),
    (Terminal, {"TERM": "dumb"}, False),
])  # fmt: skip
def test_where_there_are_colours(stream, variables, coloured, monkeypatch) -> None:
    for name, value in {"TERM": "xterm-256color", "NO_COLOR": "", "FORCE_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)
    output = stream()
    print_rows([row(1)], output)
    assert has_colours(output) == coloured
    assert ("  A \x1b[9;31mdog\x1b[0m\x1b[1;32mhorse\x1b[0m runs." in output.getvalue()) == coloured
    assert ("[-dog-]{+horse+}" in output.getvalue()) != coloured


def test_the_table_of_operators() -> None:
    assert table_of(["noun", "verb"]) == table_of([]) == "negatives" and table_of(["paraphrase"]) == "positives"
    with pytest.raises(ValueError, match="paraphrase is in the table positives, noun in negatives"):
        table_of(["noun", "paraphrase"])
