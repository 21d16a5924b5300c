"""Features of the VSE++ layout, and how photos are decoded."""

from __future__ import annotations

import io
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
from negcap.pipelines.features.preprocess import UnreadableError, cropped, decode
from negcap.schemas.features import IMAGE_REASONS, features, tensors

IDS, WIDTH, REGIONS = 7, 5, 4


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


def rejected(run: Path, table: str = "rejected_images") -> dict[str, str]:
    read = pa.concat_tables(read_table(run, table))
    return dict(zip(read["image"].to_pylist(), read["reason"].to_pylist(), strict=True))


def metadata(run: Path, table: str = "features") -> dict[str, str]:
    found = pq.read_schema(run / table / "part-00000.parquet").metadata
    return {key.decode(): value.decode() for key, value in found.items()}


# arrays


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


def test_arrays_become_features_train_first(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert rejected(run) == rejected(run, "rejected_images_grid") == {}
    assert main(["info", str(run), "--verify"]) == 0


def test_five_equal_rows_an_image_are_one(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = folder / "dev_ims.npy"
    once = np.load(array)
    five = np.repeat(once, 5, axis=0)
    np.save(array, five)
    found = extracted(tmp_path / "run", array, "--set", "shard_size=3")
    assert np.array_equal(list(found.values()), once)
    five[17, 2] += 1
    np.save(array, five)
    assert extract(array, "--output", tmp_path / "other") == 2
    assert "5 equal rows per image, those of image 3 differ" in capsys.readouterr().err


def test_images_without_names_go_as_the_captions_reader_calls_them(folder: Path, tmp_path: Path) -> None:
    (folder / "dev_images.txt").unlink()
    for name in ("without", "with captions"):
        assert list(extracted(tmp_path / name, folder / "dev_ims.npy")) == [f"dev_{i}" for i in range(IDS)]
        (folder / "dev_caps.txt").write_text("A cup.\n" * IDS * 5)


def test_bad_rows_are_rejected_with_a_reason(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array, run = folder / "dev_ims.npy", tmp_path / "run"
    numbers = np.load(array).astype(np.float32)
    numbers[2, 1], numbers[4, 0] = np.nan, 1e6
    np.save(array, numbers)
    (folder / "dev_images.txt").write_text("a.jpg\n../b.jpg\nc.jpg\nx/a.jpg\ne.jpg\n\ng.jpg\n")
    assert list(extracted(run, array, "--set", "dtype=float16")) == ["a", "g"]
    reasons = {
        "../b.jpg": "unsafe_path", "c.jpg": "not_finite", "x/a.jpg": "duplicate_image_id", "e.jpg": "not_finite",
        "": "no_image",
    }  # fmt: skip
    assert rejected(run) == reasons and set(reasons.values()) <= set(IMAGE_REASONS)
    assert "5 images rejected" in capsys.readouterr().out
    refused(capsys, "../b.jpg: unsafe_path", tmp_path / "strict", array, "--strict")


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (b"no array", "dev_ims.npy: must be a NumPy array"),
        (np.array([{"a": 1}, None], object), "dev_ims.npy: must be a NumPy array"),
        (np.array([["a", "b"]] * IDS), "(N, D) or (N, R, D) of floats, was: <U1"),
        (np.zeros(IDS), "(N, D) or (N, R, D) of floats, was: float64 (7,)"),
        (np.zeros((IDS, WIDTH), np.int8), "of floats, was: int8 (7, 5)"),
        (np.zeros((IDS - 1, WIDTH), np.float16), "per line of dev_images.txt: 7 or 35, has 6"),
        (
            np.zeros((IDS, WIDTH + 1), np.float16),
            "dev_ims.npy: must have rows of float16 (5,) as train_ims.npy, has float16 (6,)",
        ),
        (None, "must have arrays named <split>_ims.npy, has dev_grid.npy"),
    ],
)
def test_bad_arrays_are_one_line_and_nothing_is_written(folder: Path, tmp_path: Path, capsys, stored, said) -> None:  # type: ignore[no-untyped-def]
    if stored is None:
        for split in ("dev", "train"):
            (folder / f"{split}_ims.npy").unlink()
    elif isinstance(stored, bytes):
        (folder / "dev_ims.npy").write_bytes(stored)
    else:
        np.save(folder / "dev_ims.npy", stored, allow_pickle=True)
    refused(capsys, said, tmp_path / "run", folder)


def test_bad_arguments_are_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--array", "../ims"], "array must be letters and digits"),
        (["--table", "captions"], "table must be features, or features_ and a name"),
        (["--set", "dtype=int8"], "dtype must be one of float16, float32, was: int8"),
    ):
        refused(capsys, said, tmp_path / "run", folder, *arguments)


def test_resume_overwrite_and_equal_bytes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def content(run: Path) -> dict[Path, bytes]:
        return {path.relative_to(run): path.read_bytes() for path in run.rglob("*.*")}

    run, again = tmp_path / "run", tmp_path / "again"
    sized = ("--output", run, "--set", "shard_size=4")
    assert extract(folder, *sized) == 0
    extracted(again, shutil.copytree(folder, tmp_path / "moved"), *sized[2:])
    files = content(run)
    assert files == content(again)

    damaged, kept = run / "features" / "part-00001.parquet", run / "features" / "part-00000.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    stamp = kept.stat().st_mtime_ns
    assert main(["info", str(run), "--verify"]) == 1
    assert extract(folder, *sized) == 0
    assert kept.stat().st_mtime_ns == stamp and files == content(run)

    capsys.readouterr()
    assert extract(folder, *sized, "--limit", 9) == 2
    assert "limit was unset, is now 9 (--overwrite replaces it)" in capsys.readouterr().err
    assert extract(folder, *sized, "--limit", 9, "--overwrite") == 0
    assert len(rows(run)) == 9
    np.save(folder / "dev_ims.npy", np.zeros((IDS, WIDTH), np.float16))
    assert extract(folder, *sized, "--limit", 9) == 2
    assert "its input dev_ims.npy has changed" in capsys.readouterr().err


def photo(path: Path, size: tuple[int, int] = (40, 30), seed: int = 0, **how: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(path, **how)
    return path


# preprocessing


def png(mode: str, size: tuple[int, int] = (8, 8), colour: object = None, **how: object) -> bytes:
    stored = io.BytesIO()
    Image.new(mode, size, colour).save(stored, "PNG" if mode != "CMYK" else "TIFF", **how)
    return stored.getvalue()


def test_every_mode_becomes_rgb() -> None:
    for mode, stored, shown in (
        ("RGB", (255, 0, 51), (255, 0, 51)),
        ("L", 102, (102, 102, 102)),
        ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
        ("CMYK", (0, 255, 255, 0), (255, 0, 0)),
        ("1", 1, (255, 255, 255)),
    ):
        made = decode(png(mode, colour=stored))
        assert (made.size, made.getpixel((3, 3))) == ((8, 8), shown), mode


def test_a_photo_is_turned_resized_in_proportion_and_cropped_to_its_centre(tmp_path: Path) -> None:
    upright, exif = photo(tmp_path / "a.png", (12, 10)), Image.Exif()
    data = upright.read_bytes()
    whole = cropped(decode(data), 10, 10)
    assert cropped(decode(data), 10, 6) == whole.crop((2, 2, 8, 8))
    exif[0x0112] = 3  # upside down
    Image.open(upright).rotate(180).save(tmp_path / "b.png", exif=exif)
    turned = cropped(decode((tmp_path / "b.png").read_bytes()), 10, 10)
    assert np.array_equal(np.asarray(turned), np.asarray(whole))
    for size in ((640, 427), (427, 640)):
        whole = Image.effect_noise(size, 50).convert("RGB")
        small = whole.resize(tuple(256 * side // 427 for side in size), Image.Resampling.BILINEAR)
        left, top = (round((side - 224) / 2) for side in small.size)
        assert cropped(whole) == small.crop((left, top, left + 224, top + 224))


def test_huge_photos_are_not_decoded() -> None:
    for size in ((12_000, 9_000), (20_000, 20_000)):
        data = bytearray(png("1"))
        data[16:24] = size[0].to_bytes(4, "big") + size[1].to_bytes(4, "big")
        data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
        with pytest.raises(UnreadableError) as caught:
            decode(bytes(data))
        assert caught.value.reason == "too_large"


def test_the_schema_names_what_it_cannot_be_and_tensors_are_rows_of_their_shape() -> None:
    with pytest.raises(ValueError, match="dtype must be one of float16, float32, was: uint8"):
        features((3,), "uint8")
    with pytest.raises(ValueError, match="shape must be"):
        features(())
    column = tensors(pa.array(np.arange(12, dtype=np.float32)), (2, 3))
    assert column.to_numpy_ndarray().tolist() == np.arange(12).reshape(2, 2, 3).tolist()


@pytest.mark.parametrize(
    ("format", "mode", "colour"),
    [("JPEG", "RGB", "red"), ("JPEG", "L", 9), ("PNG", "RGB", "red"), ("PNG", "RGBA", (9, 9, 9, 99)), ("PNG", "P", 0)],
)
def test_large_photos_are_reduced_as_they_are_decoded(format: str, mode: str, colour: object) -> None:
    large, file = Image.new(mode, (100, 40), colour), io.BytesIO()
    exif = large.getexif()
    exif[0x0112] = 6  # the camera was turned
    large.save(file, format, exif=exif)
    whole, same, half, tenth = (decode(file.getvalue(), *shorter) for shorter in ((), (21,), (20,), (4,)))
    assert (whole.size, same.size, half.size) == ((40, 100), (40, 100), (20, 50))
    assert min(tenth.size) == (5 if format == "JPEG" else 4)
    assert half.mode == whole.mode == "RGB" and half.getpixel((3, 3)) == whole.getpixel((3, 3))


def test_few_pixels_are_in_memory_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocess, "AT_ONCE", 100)
    sizes = [(5, 10), (10, 5), (1, 1), (20, 20), (3, 3)]
    files = [photo(tmp_path / f"{number}.png", size) for number, size in enumerate(sizes)]
    opened = preprocess.open_images(files)
    assert [[image.size for image in some] for some in opened] == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]
