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
