"""Image encoders in ONNX format: any tensor of the model can be the feature. Computed with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.storage import sha256_file

if TYPE_CHECKING:
    import numpy as np

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
EXPECTED = "an ONNX model with one image input"
NAMED = 8
FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16"}
NEEDED = 'photos need ONNX Runtime, onnx and Pillow: pip install "negcap[features]"'


@dataclass(frozen=True)
class Input:
    """The image input of a model: name and dtype of the tensor.

    channels_last: whether it is (batch, height, width, 3) instead of (batch, 3, height, width). batch, height, width:
    the sizes that the model prescribes; 0: any.
    """

    name: str
    dtype: str
    channels_last: bool
    batch: int
    height: int
    width: int


class Backbone:
    """An ONNX model without the part behind the tensor that is the feature."""

    def __init__(self, path: Path, layer: str = "", *, grid: bool = False, device: str = "cpu", threads: int = 1):
        """Load a model.

        layer: the tensor, or a node (its first output); empty: the model's first output. grid: keep regions instead of
        their mean. device: a key of PROVIDERS. Raises FileNotFoundError, ValueError naming the model and the rule,
        ImportError without ONNX Runtime.
        """
        try:
            import onnx
            import onnxruntime
        except ImportError as error:
            raise ImportError(NEEDED) from error
        if device not in PROVIDERS:
            raise ValueError(f"device must be one of {', '.join(PROVIDERS)}, was: {device}")
        if PROVIDERS[device] not in onnxruntime.get_available_providers():
            raise ValueError(f"device {device} needs an ONNX Runtime with {PROVIDERS[device]}")
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file, expected {EXPECTED}")
        try:
            model = onnx.load(path)
        except Exception as error:  # protobuf, onnx and the file system each have their own
            raise ValueError(f"{path}: must be {EXPECTED}, cannot be read: {_first_line(error)}") from None
        self.layer = cut(model, layer, path)
        self.grid = grid
        self.files = {path.name: path, **_external(path)}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        try:
            data = model.SerializeToString()
            self._session = onnxruntime.InferenceSession(data, options, providers=[PROVIDERS[device]])
        except Exception as error:  # ONNX Runtime's own
            raise ValueError(f"{path}: must be {EXPECTED}, cannot be run: {_first_line(error)}") from None
        self.path = path
        self.input = _input(self._session.get_inputs(), path)

    @property
    def name(self) -> str:
        """File, tensor and, with `grid`, that word: `resnet152.onnx:/layer4/Relu_output_0 grid`."""
        return f"{self.path.name}:{self.layer}{' grid' if self.grid else ''}"

    def inputs(self) -> dict[str, str]:
        """The hashes of the model's files, by file name."""
        return {name: f"sha256 {sha256_file(file)}" for name, file in self.files.items()}

    def encode(self, images: np.ndarray) -> np.ndarray:
        """The features of images (n, 3, H, W) float32: (n, D) or, with `grid`, (n, R, D) float32.

        The regions of a feature map (C, h, w) are its h * w positions, row by row; those of a sequence (R, D) are its
        elements. Without `grid`, their mean. Raises ValueError when the tensor has another shape or the model cannot be
        run on such images.
        """
        import numpy as np

        given = images.transpose(0, 2, 3, 1) if self.input.channels_last else images
        given = np.ascontiguousarray(given, dtype=self.input.dtype)
        step = self.input.batch or len(given)
        made = np.concatenate([self._run(given[at : at + step]) for at in range(0, len(given), step)])
        return self._regions(made.astype(np.float32, copy=False))

    def _run(self, batch: np.ndarray) -> np.ndarray:
        import numpy as np

        short = self.input.batch - len(batch)
        if short > 0:
            batch = np.concatenate([batch, np.zeros((short, *batch.shape[1:]), batch.dtype)])
        try:
            (made,) = self._session.run([self.layer], {self.input.name: batch})
        except Exception as error:  # ONNX Runtime's own
            raise ValueError(
                f"{self.path}: cannot be run on images of {batch.shape[1:]}: {_first_line(error)}"
            ) from None
        if made.ndim < 2 or len(made) != len(batch) or made.dtype.kind != "f":
            raise ValueError(
                f"{self.path}: layer {self.layer} must be floats, one row per image, was: {made.dtype} {made.shape} of "
                f"{len(batch)} images"
            )
        return made[: len(batch) - max(short, 0)]

    def _regions(self, made: np.ndarray) -> np.ndarray:
        if made.ndim == 4:
            made = made if self.input.channels_last else made.transpose(0, 2, 3, 1)
            if not self.grid and made.shape[1:3] == (1, 1):
                return made[:, 0, 0]
            made = made.reshape(len(made), -1, made.shape[3])
        if made.ndim == 3:
            return made if self.grid else made.mean(axis=1, dtype="float32")
        if self.grid or made.ndim != 2:
            wanted = "a map (C, h, w) or tokens (R, D)" if self.grid else "(D,), (R, D) or (C, h, w)"
            raise ValueError(f"{self.path}: layer {self.layer} must be {wanted} per image, was: {made.shape[1:]}")
        return made


def cut(model: Any, layer: str, path: Path) -> str:
    """Make a tensor the only output of an ONNX model (changed in place), and remove the nodes that it does not need.

    layer: a tensor, or a node (its first output); empty: the model's first output. path: of the model, for messages.
    Returns the tensor's name. Raises ValueError, naming some of the model's tensors, when there is no such layer.
    """
    import onnx

    graph = model.graph
    made = {name: node for node in graph.node for name in node.output if name}
    nodes = {node.name: node.output[0] for node in graph.node if node.name and node.output}
    outputs = [output.name for output in graph.output]
    if not outputs:
        raise ValueError(f"{path}: must be {EXPECTED}, has no output")
    tensor = layer or outputs[0]
    if tensor not in made:
        tensor = nodes.get(tensor, "")
    if not tensor:
        last = ", ".join(list(made)[-NAMED:])
        raise ValueError(f"{path}: layer must be a tensor or node of the model, the last are {last}; was: {layer}")
    needed, waiting = set(), [tensor]
    while waiting:
        node = made.get(waiting.pop())
        if node is not None and id(node) not in needed:
            needed.add(id(node))
            waiting += [name for name in _reads(node) if name]
    kept = [node for node in graph.node if id(node) in needed]
    del graph.node[:]
    graph.node.extend(kept)
    output = next((one for one in graph.output if one.name == tensor), None) or onnx.ValueInfoProto(name=tensor)
    del graph.output[:]
    graph.output.append(output)
    return tensor


def _reads(node: Any) -> Iterator[str]:
    """The names of the tensors that a node, or a subgraph in it, reads."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)


def _external(path: Path) -> dict[str, Path]:
    """The files with weights that are stored outside the model file, by name."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"]
    return {entry.value: path.parent / entry.value for entry in entries}


def _input(inputs: Sequence[Any], path: Path) -> Input:
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in FLOATS:
        were = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs) or "none"
        raise ValueError(f"{path}: must be {EXPECTED} of floats in four dimensions, has {were}")
    batch, *rest = [size if isinstance(size, int) and size > 0 else 0 for size in inputs[0].shape]
    last = rest[2] == 3 and rest[0] != 3
    if not last and rest[0] not in (0, 3):
        raise ValueError(f"{path}: must read images of 3 colours, input {inputs[0].name} has {inputs[0].shape}")
    height, width = rest[:2] if last else rest[1:]
    return Input(inputs[0].name, FLOATS[inputs[0].type], last, batch, height, width)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")[:300] or type(error).__name__
