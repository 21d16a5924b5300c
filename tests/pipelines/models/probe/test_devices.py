"""Probes compute on the device that is chosen. Without a GPU, torch's device `meta` stands for one: it computes shapes
only, and refuses tensors of two devices as a GPU does.
"""

from pathlib import Path

import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.models.probe.blanks import BlankFiller, Blanks

META = torch.device("meta")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "command",
    [
        *(f"probe {task} RUN --vectors VECTORS --output OUTPUT" for task in ("words", "blanks")),
        *(f"probe {task} RUN --model MODEL" for task in ("saliency", "pictures", "lengths")),
        "hypernyms --output OUTPUT",
    ],
)
def test_a_gpu_that_is_not_there_is_refused_before_anything_is_read(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RUN", "MODEL"):
        (tmp_path / name).mkdir()
    (tmp_path / "VECTORS").touch()
    arguments = [str(tmp_path / word) if word.isupper() else word for word in command.split()]
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "this torch sees no GPU" in capsys.readouterr().err


def test_blanks_are_filled_on_the_device_of_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # only a GPU's driver can
    tokens = torch.tensor([1, 5, 6, 7, 2, 1, 7, 2], dtype=torch.int32)
    captions, kinds = torch.tensor([1, 0]), torch.tensor([0, 1, 0])
    starts, positions = torch.tensor([0, 2, 3]), torch.tensor([1, 3, 1])
    blanks = Blanks(tokens, torch.tensor([0, 5, 8]), captions, starts, positions, kinds)
    filler = BlankFiller(torch.rand(9, 4), 6, 8, 5).to(META)
    which, owner = torch.tensor([1, 2]), torch.arange(2)
    vectors = filler(blanks, torch.arange(2), which, owner, torch.rand(2, 6, device=META))
    assert vectors.shape == (2, 4) and vectors.device == META
    with pytest.raises(RuntimeError, match="device"):  # as a GPU does
        vectors + torch.rand(2, 4)
