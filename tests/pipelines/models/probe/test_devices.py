"""Probes compute on the device that is chosen. Without a GPU, torch's device `meta` stands for one: it computes shapes
only, and refuses tensors of two devices as a GPU does.
"""

from pathlib import Path

import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.models.probe.blanks import BlankFiller, Blanks

META = torch.device("meta")
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
BLANKS = Blanks(
    tokens=torch.tensor([1, 5, 6, 7, 2, 1, 7, 2], dtype=torch.int32),
    offsets=torch.tensor([0, 5, 8]),
    image=torch.tensor([1, 0]),
    starts=torch.tensor([0, 2, 3]),
    position=torch.tensor([1, 3, 1]),
    kind=torch.tensor([0, 1, 0]),
)


@NO_GPU
@pytest.mark.parametrize(
    "command",
    [
        ["probe", "words", "RUN", "--vectors", "VECTORS", "--output", "OUTPUT"],
        ["probe", "blanks", "RUN", "--vectors", "VECTORS", "--output", "OUTPUT"],
        ["probe", "saliency", "RUN", "--model", "MODEL"],
        ["probe", "pictures", "RUN", "--model", "MODEL"],
        ["probe", "lengths", "RUN", "--model", "MODEL"],
        ["hypernyms", "--output", "OUTPUT"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_gpu_that_is_not_there_is_refused_before_anything_is_read(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RUN", "MODEL"):
        (tmp_path / name).mkdir()
    (tmp_path / "VECTORS").touch()
    arguments = [str(tmp_path / word) if word.isupper() else word for word in command]
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "device must be auto or cpu: this torch sees no GPU" in capsys.readouterr().err


def test_blanks_are_filled_on_the_device_of_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # only a GPU's driver can
    filler = BlankFiller(torch.rand(9, 4), 6, 8, 5).to(META)
    captions, which, owner = torch.arange(2), torch.tensor([1, 2]), torch.arange(2)
    found = filler(BLANKS, captions, which, owner, torch.rand(2, 6, device=META))
    assert found.shape == (2, 4) and found.device == META
    with pytest.raises(RuntimeError, match="device"):  # as a GPU does
        found + torch.rand(2, 4)
