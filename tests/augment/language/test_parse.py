"""Loading the shipped parser costs a worker no more than it needs."""

import subprocess
import sys

SCRIPT = """
import sys
from negcap.augment.language.parse import parse
assert parse(["A dog runs."])[0].tokens[1].lemma == "dog"
assert "spacy" in sys.modules and "torch" not in sys.modules
import torch
assert torch.zeros(2).tolist() == [0, 0]
"""


def test_the_shipped_parser_leaves_torch_alone() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


def test_spacy_is_whole_after_it_was_loaded_without_its_command_line() -> None:
    code = (
        "from negcap.augment.language.parse import load; load(); import sys; assert 'spacy.cli' not in sys.modules; "
        "import spacy; assert spacy.info(silent=True); import spacy.cli; assert spacy.cli.train"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
