"""Features of the VSE++ layout and of photos through small ONNX models that the tests make."""

from __future__ import annotations

import io
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from negcap.pipelines.cli import main
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.features import preprocess
from negcap.pipelines.features.preprocess import MEAN, STD, UnreadableError, decode, normalised
from negcap.schemas.features import IMAGE_REASONS
from tests.runs import caption_row, write_run
from tests.tables import content, rows_of

IDS, WIDTH, REGIONS = 7, 5, 4
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3, 2, 2)).astype(np.float32)  # of the model's convolution


def extract(*arguments: object) -> int:
    return main(["features", *(str(argument) for argument in arguments), "--quiet"])


def extracted(run: Path, *arguments: object) -> dict[str, np.ndarray]:
    """The features that an extraction into a new run makes."""
    assert extract(*arguments, "--output", run) == 0
    return rows(run)


def refused(capsys: pytest.CaptureFixture[str], said: str, run: Path, *arguments: object) -> None:
    """Extracting ends with a line that says `said`; nothing is written."""
    assert extract(*arguments, "--output", run) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1 and not run.exists()


def rows(run: Path, table: str = "features") -> dict[str, np.ndarray]:
    read = pa.concat_tables(read_table(run, table))
    numbers = read["feature"].combine_chunks().to_numpy_ndarray()
    return dict(zip(read["image_id"].to_pylist(), numbers, strict=True))


def rejected(run: Path) -> dict[str, str]:
    return {row["image"]: row["reason"] for row in rows_of(run, "rejected_images")}


def metadata(run: Path) -> dict[str, str]:
    found = pq.read_schema(run / "features" / "part-00000.parquet").metadata
    return {key.decode(): value.decode() for key, value in found.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two splits with names, (N, D) float16; and a grid (N, R, D) float32."""
    folder = tmp_path / "precomp"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split in ("dev", "train"):
        np.save(folder / f"{split}_ims.npy", rng.normal(size=(IDS, WIDTH)).astype(np.float16))
        np.save(folder / f"{split}_grid.npy", rng.normal(size=(IDS, REGIONS, WIDTH)).astype(np.float32))
        (folder / f"{split}_images.txt").write_text("".join(f"{split}{i}.jpg\n" for i in range(IDS)))
    return folder


def test_arrays_become_features_train_first(folder, tmp_path, capsys):
    run = tmp_path / "run"
    extracted(run, folder, "--backbone", "ResNet of the tests")
    assert "14 images, 5 float16 each, ResNet of the tests" in capsys.readouterr().out
    assert (metadata(run)["backbone"], metadata(run)["shape"]) == ("ResNet of the tests", "[5]")
    extracted(run, folder, "--array", "grid", "--table", "features_grid", "--set", "dtype=float16")
    for table, array in (("features", "ims"), ("features_grid", "grid")):
        found = rows(run, table)
        assert list(found) == [f"{split}{i}" for split in ("train", "dev") for i in range(IDS)]
        stored = np.load(folder / f"dev_{array}.npy").astype(np.float16)
        assert np.array_equal([found[f"dev{i}"] for i in range(IDS)], stored) and found["dev3"].dtype == np.float16
    assert rejected(run) == {} and rows_of(run, "rejected_images_grid") == []
    assert main(["info", str(run), "--verify"]) == 0


def test_five_equal_rows_an_image_are_one_and_images_without_names_go_by_number(folder, tmp_path, capsys):
    array = folder / "dev_ims.npy"
    once = np.load(array)
    five = np.repeat(once, 5, axis=0)
    np.save(array, five)
    (folder / "dev_images.txt").unlink()
    (folder / "dev_caps.txt").write_text("A cup.\n" * IDS * 5)
    found = extracted(tmp_path / "run", array, "--set", "shard_size=3")
    assert np.array_equal(list(found.values()), once) and list(found) == [f"dev_{i}" for i in range(IDS)]
    five[17, 2] += 1
    np.save(array, five)
    assert extract(array, "--output", tmp_path / "other") == 2
    assert "5 equal rows per image, those of image 3 differ" in capsys.readouterr().err


def test_bytes_stand_for_numbers_by_the_scale_beside_them(folder, tmp_path, capsys):
    grid = np.arange(IDS * REGIONS * WIDTH).reshape(IDS, REGIONS, WIDTH) * 255 // (IDS * REGIONS * WIDTH - 1)
    array, scale = folder / "dev_grid.npy", folder / "grid_scale.npz"
    np.save(array, grid.astype(np.uint8))
    low, high = np.arange(WIDTH) - 3.0, np.arange(WIDTH) + 1.0
    for held, said in (({}, "grid_scale.npz"), ({"low": low}, "high"), ({"low": high, "high": low}, "low <= high")):
        if held:
            np.savez(scale, **held)
        refused(capsys, said, tmp_path / "refused", array)
    np.savez(scale, low=low, high=high)
    found = extracted(tmp_path / "run", array)
    expected = low + grid / 255 * (high - low)
    assert found["dev3"].dtype == np.float16
    assert np.allclose([found[f"dev{i}"] for i in range(IDS)], expected, atol=0.003)


def test_bad_rows_are_rejected_with_a_reason(folder, tmp_path, capsys):
    array, run = folder / "dev_ims.npy", tmp_path / "run"
    numbers = np.load(array).astype(np.float32)
    numbers[2, 1], numbers[4, 0] = np.nan, 1e6
    np.save(array, numbers)
    (folder / "dev_images.txt").write_text("a.jpg\n../b.jpg\nc.jpg\nx/a.jpg\ne.jpg\n\ng.jpg\n")
    assert list(extracted(run, array, "--set", "dtype=float16")) == ["a", "g"]
    assert "5 images rejected" in capsys.readouterr().out
    not_finite = dict.fromkeys(("c.jpg", "e.jpg"), "not_finite")
    assert rejected(run) == {
        "../b.jpg": "unsafe_path", "x/a.jpg": "duplicate_image_id", "": "no_image", **not_finite
    }  # fmt: skip
    assert set(rejected(run).values()) <= set(IMAGE_REASONS)
    refused(capsys, "../b.jpg: unsafe_path", tmp_path / "strict", array, "--strict")


def test_bad_arrays_are_one_line_and_nothing_is_written(folder, tmp_path, capsys):
    file, run = folder / "dev_ims.npy", tmp_path / "run"
    for array, message in (
        (np.array([{"a": 1}, None], object), "dev_ims.npy: must be a NumPy array"),
        (np.array([["a", "b"]] * IDS), "(N, D) or (N, R, D) of floats or uint8, was: <U1"),
        (np.zeros(IDS), "(N, D) or (N, R, D) of floats or uint8, was: float64 (7,)"),
        (np.zeros((IDS - 1, WIDTH), np.float16), "per line of dev_images.txt: 7 or 35, has 6"),
        (np.zeros((IDS, WIDTH + 1), np.float16), "must have rows of float16 (5,) as train_ims.npy, has float16 (6,)"),
    ):
        np.save(file, array, allow_pickle=True)
        refused(capsys, message, run, folder)
    file.write_bytes(b"no array")
    refused(capsys, "dev_ims.npy: must be a NumPy array", run, folder)
    for split in ("dev", "train"):
        (folder / f"{split}_ims.npy").unlink()
    refused(capsys, "must have arrays named <split>_ims.npy, has dev_grid.npy", run, folder)


def test_bad_arguments_are_one_line(folder, photos, tmp_path, capsys):
    onnx = ["--onnx", model(tmp_path / "m.onnx", size=224)]
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07no model")
    two = "(float[N,3,8,8] one, float[N,3,8,8] two) => (float[N,3,8,8] sum) { sum = Add (one, two) }"
    whole = "(float[N,3,8,8] image) => (int64[N,3,8,8] whole) { whole = Cast <to = 7> (image) }"
    for name, graph in (("two", two), ("whole", whole)):
        save_model(tmp_path / f"{name}.onnx", f'<ir_version: 8, opset_import: ["" : 17]> {name} {graph}')
    (tmp_path / "empty").mkdir()
    outputs = "m.onnx: layer must be an output of the model, classes, relu, pooled; was: map"
    for arguments, said in (
        ([folder, "--array", "../ims"], "array must be letters and digits"),
        ([folder, "--layer", "x"], "layer is for photos: onnx must be given with it"),
        ([folder, "--onnx", tmp_path / "none.onnx"], "none.onnx: no such file"),
        ([photos, *onnx, "--layer", "map"], outputs),
        ([photos, *onnx, "--grid"], "layer classes must be a map (C, h, w) or tokens (R, D) per image, was: (2,)"),
        ([photos, *onnx, "--set", "crop=300"], "resize must be >= crop (300), was: 256"),
        ([photos, *onnx, "--set", "crop=16"], "crop must be 224 as m.onnx reads (224, 224), was: 16"),
        ([photos, "--onnx", tmp_path / "bad.onnx"], "bad.onnx: must be an ONNX model with one image input"),
        ([photos, "--onnx", tmp_path / "two.onnx"], "two.onnx: must be an ONNX model with one image input"),
        ([photos, "--onnx", tmp_path / "whole.onnx", "--set", "crop=8"], "whole must be floats, one row per image"),
        ([tmp_path / "empty", *onnx], "must have photos"),
    ):
        refused(capsys, said, tmp_path / "run", *arguments)
    (tmp_path / "empty" / "a.jpg").write_text("none")
    assert extract(tmp_path / "empty", *onnx, "--output", tmp_path / "run") == 2
    assert "must have images that can be read, has none" in capsys.readouterr().err


def photo(path: Path, size: tuple[int, int] = (40, 30), seed: int = 0, **how: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(path, **how)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for seed, name in enumerate(("a.png", "b.png", "sub/c.png", "d.png", "e.png")):
        photo(folder / name, (40 + seed, 30 + 2 * seed), seed)
    return folder


@pytest.fixture(scope="module")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("model") / "m.onnx")


# conv (3 -> 4, 2x2, stride 2) "map" -> ReLU -> mean of regions "pooled" -> "classes"; ONNX's own text format
MODEL = Path(__file__).with_name("model.txt").read_text("utf-8")


def save_model(path: Path, text: str) -> Path:
    from onnx import parser, save

    save(parser.parse_model(text), path)
    return path


def model(path: Path, *, channels_last: bool = False, batch: int | str = "N", size: int | str = "S") -> Path:
    shape = f"{size},{size},3" if channels_last else f"3,{size},{size}"
    axes = [0, 3, 1, 2] if channels_last else [0, 1, 2, 3]
    weights = ",".join(map(repr, WEIGHTS.ravel().tolist()))
    return save_model(path, MODEL.format(batch=batch, shape=shape, weights=weights, axes=axes))


def expected_map(path: Path) -> np.ndarray:
    """What the model's "relu" must be, with numpy alone: (regions, 4)."""
    image = normalised(path.read_bytes(), 24, 16)
    cells = image.reshape(3, 8, 2, 8, 2).transpose(1, 3, 0, 2, 4).reshape(64, 12)
    return np.maximum(cells @ WEIGHTS.reshape(4, 12).T, 0)


SIZES = ("--set", "resize=24", "--set", "crop=16")


@pytest.mark.parametrize(("options", "layer"), [
    ({}, "relu"),
    ({"batch": 3}, "relu"),
    ({"channels_last": True}, "pooled"),  # the map of the convolution is channels first whatever the input is
])  # fmt: skip
def test_an_output_of_a_model_is_what_numpy_says(photos, tmp_path, options, layer):
    onnx, run = model(tmp_path / "small.onnx", **options), tmp_path / "run"
    found = extracted(run, photos, "--onnx", onnx, "--layer", layer, *SIZES, "--set", "batch=2")
    assert list(found) == ["a", "b", "d", "e", "c"]
    for name, file in (("a", "a.png"), ("c", "sub/c.png"), ("e", "e.png")):
        assert np.allclose(found[name], expected_map(photos / file).mean(axis=0), atol=1e-5)
    assert metadata(run)["backbone"] == f"small.onnx:{layer}"
    if layer == "relu":
        found = extracted(tmp_path / "grid", photos, "--onnx", onnx, "--layer", layer, "--grid", *SIZES)
        assert np.allclose(found["b"], expected_map(photos / "b.png"), atol=1e-5)
        assert json.loads(metadata(tmp_path / "grid")["shape"]) == list(found["a"].shape) == [64, 4]


def test_threads_and_another_place_make_the_same_bytes(photos, onnx, tmp_path):
    """Of the first output, which is the default."""
    runs = []
    for threads, place in ((1, photos), (2, shutil.copytree(photos, tmp_path / "other"))):
        run = tmp_path / f"run{threads}"
        extracted(run, place, "--onnx", onnx, *SIZES, "--set", f"threads={threads}", "--set", "shard_size=2")
        runs.append(content(run / "features"))
    assert runs[0] == runs[1] and sum(name.endswith(".parquet") for name in runs[0]) == 3
    assert metadata(run)["backbone"] == "m.onnx:classes"


def test_bad_photos_are_rejected_and_the_rest_goes_on(photos, onnx, tmp_path):
    (photos / "b.png").write_bytes((photos / "b.png").read_bytes()[:500])
    (photos / "d.png").write_text("<svg/>")
    photo(photos / "other" / "a.png")
    photo(photos / "odd\u2028name.png")
    (photos / "thin.png").write_bytes(png("1", (100, 1)))  # rejected before it is made large
    options = (photos, "--onnx", onnx, "--set", "resize=1_001", "--set", "crop=16")
    found = extracted(tmp_path / "run", *options, "--set", "batch=2")
    assert list(found) == ["a", "e", "c"]
    assert rejected(tmp_path / "run") == {
        "b.png": "unreadable", "d.png": "unreadable", "other/a.png": "duplicate_image_id",
        "odd\u2028name.png": "control_characters", "thin.png": "too_large",
    }  # fmt: skip
    details = next(read_table(tmp_path / "run", "rejected_images"))["detail"].to_pylist()
    assert "an image must have <= 100,000,000 pixels, 100 x 1 resized has 100100 x 1001" in details
    alone = extracted(tmp_path / "alone", *options, "--set", "batch=1")
    assert np.allclose(alone["e"], found["e"], atol=1e-6)


def test_photos_of_a_runs_captions(photos, onnx, tmp_path, capsys):
    (photos / "link.png").symlink_to(photo(tmp_path / "elsewhere.png"))
    (photos / "broken.png").symlink_to(tmp_path / "nowhere.png")
    images = ("a.png", "sub/c.png", "link.png", "broken.png", "gone.png", "b\nc.png", "b\\c.png")
    captions = [caption_row("A cup.", f"i{number}", image=image) for number, image in enumerate(images)]
    run = write_run(tmp_path / "run", captions=captions)
    assert extract(run, "--onnx", onnx, *SIZES, "--output", run) == 2
    assert "images must be the folder of its photos" in capsys.readouterr().err
    assert list(extracted(run, run, "--onnx", onnx, *SIZES, "--images", photos)) == ["i0", "i1", "i2"]
    assert list(rejected(run).values()) == ["missing", "missing", "control_characters", "unsafe_path"]


def png(mode: str, size: tuple[int, int] = (8, 8), colour: object = None, **how: object) -> bytes:
    stored = io.BytesIO()
    Image.new(mode, size, colour).save(stored, "PNG" if mode != "CMYK" else "TIFF", **how)
    return stored.getvalue()


@pytest.mark.parametrize(("mode", "stored", "shown"), [
    ("RGB", (255, 0, 51), (255, 0, 51)),
    ("L", 102, (102, 102, 102)),
    ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
    ("CMYK", (0, 255, 255, 0), (255, 0, 0)),
    ("1", 1, (255, 255, 255)),
])  # fmt: skip
def test_every_mode_becomes_rgb_and_is_normalised(mode, stored, shown):
    pixels = normalised(png(mode, colour=stored), 8, 8)
    assert pixels.shape == (3, 8, 8)
    assert np.allclose(pixels[:, 3, 3], (np.array(shown) / 255 - MEAN) / STD, atol=1e-5)


def test_a_photo_is_turned_resized_in_proportion_and_cropped_to_its_centre(tmp_path):
    upright, exif = photo(tmp_path / "a.png", (12, 10)), Image.Exif()
    data = upright.read_bytes()
    assert np.array_equal(normalised(data, 10, 6), normalised(data, 10, 10)[:, 2:8, 2:8])
    exif[0x0112] = 3  # upside down
    Image.open(upright).rotate(180).save(tmp_path / "b.png", exif=exif)
    assert np.array_equal(normalised(data, 10, 10), normalised((tmp_path / "b.png").read_bytes(), 10, 10))
    for size in ((640, 427), (427, 640)):
        whole = Image.effect_noise(size, 50).convert("RGB")
        small = whole.resize(tuple(256 * side // 427 for side in size), Image.Resampling.BILINEAR)
        left, top = (round((side - 224) / 2) for side in small.size)
        assert preprocess.cropped(whole) == small.crop((left, top, left + 224, top + 224))


def test_a_huge_photo_is_not_decoded():
    data = bytearray(png("1"))
    data[16:24] = (12_000).to_bytes(4, "big") + (9_000).to_bytes(4, "big")  # of a bomb's head: width, height
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    with pytest.raises(UnreadableError) as caught:
        normalised(bytes(data))
    assert caught.value.reason == "too_large"


@pytest.mark.parametrize(("format", "mode", "colour"), [
    ("JPEG", "L", 9), ("PNG", "RGBA", (9, 9, 9, 99)), ("PNG", "P", 0),
])  # fmt: skip
def test_large_photos_are_reduced_as_they_are_decoded(format, mode, colour):
    large, file = Image.new(mode, (100, 40), colour), io.BytesIO()
    exif = large.getexif()
    exif[0x0112] = 6  # the camera was turned
    large.save(file, format, exif=exif)
    whole, same, half, tenth = (decode(file.getvalue(), *shorter) for shorter in ((), (21,), (20,), (4,)))
    assert (whole.size, same.size, half.size) == ((40, 100), (40, 100), (20, 50))
    assert min(tenth.size) == (5 if format == "JPEG" else 4)
    assert half.mode == whole.mode == "RGB" and half.getpixel((3, 3)) == whole.getpixel((3, 3))


def test_few_pixels_are_in_memory_together(tmp_path):
    sizes = [(5, 10), (10, 5), (1, 1), (20, 20), (3, 3)]
    files = [photo(tmp_path / f"{number}.png", size) for number, size in enumerate(sizes)]
    opened = preprocess.open_images(files, most_pixels=100)
    assert [[image.size for image in together] for together in opened] == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]
