"""Stage import: a set of captions and negatives that others made -> captions and proposals, which are then judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ...augment.settings import AtLeastOne, Settings
from ...schemas.captions import CAPTIONS, LANGUAGE, REJECTED_RECORDS
from ...schemas.negatives import PROPOSALS
from ..engine.progress import Progress
from ..engine.run import Parts, run_source
from ..engine.stage import StageResult
from ..ingestion.grouping import ImageLimit, SourceName, Strict, shard_sizes
from ..readers.files import content, name_in, naming
from ..readers.pairs import Foreign, NoColumnError, pair_files, read_pairs
from ..readers.record import Rejected, image_id
from .proposals import judging

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "import"
STAGE = judging(NAME)


class ImportConfig(Settings):
    """How a set is read."""

    source_name: SourceName = "foreign"
    limit: ImageLimit = None
    shard_size: AtLeastOne = Field(1000, description="captions per Parquet file, at most, of whole images")
    strict: Strict = False


@dataclass
class _Image:
    """An image, its captions in order of appearance, and the proposals (file, label, text) for each."""

    image: str
    split: str
    captions: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)


def read_foreign(
    source: str,
    run: Path,
    config: ImportConfig,
    *,
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Read a set (a file or a folder of files) into the tables captions, proposals and rejected_records of a run.

    The captions of an image are in one shard. A record without image is of an image of its own, as are all records
    with the same caption. Counters: captions, images, proposals, `rejected.<reason>`. Raises FileNotFoundError or
    ValueError, with one line that names the file, if it cannot be read, lacks a column, has no usable record or, with
    `strict`, a bad one; OtherConfigError as `run_source`.
    """
    with naming(source):
        urls = pair_files(source)
        contents = [(name_in(source, url), content(url)) for url in urls]
        held = {name: f"{file['bytes']} bytes, sha256 {file['sha256']}" for name, file in contents}

    def parts() -> Parts:
        images, rejected = _read(source, urls, config)
        if not images:
            first = f"; the first bad one: line {rejected[0].line}: {rejected[0].detail}" if rejected else ""
            raise ValueError(f"{source}: must have captions with negatives, has none{first}")
        progress.advance(sum(len(some) for image in images.values() for some in image.captions.values()), 0)
        yield from _shards(list(images.values()), rejected, config)

    return run_source(
        run,
        NAME,
        {"rejected_records": REJECTED_RECORDS, "proposals": PROPOSALS, "captions": CAPTIONS},
        parts(),
        {name: value for name, value in config if name != "strict"},
        inputs=held,
        unit="proposals",
        progress=progress,
        overwrite=overwrite,
    )


def _read(source: str, urls: Sequence[str], config: ImportConfig) -> tuple[dict[str, _Image], list[Rejected]]:
    """The images by their id, and the records that cannot be kept."""
    images: dict[str, _Image] = {}
    rejected: list[Rejected] = []
    for record in _records(source, urls):
        bad = record if isinstance(record, Rejected) else _add(images, record, config.limit)
        if bad is not None:
            if config.strict:
                raise ValueError(f"{bad.source}:{bad.line}: {bad.reason}: {bad.detail}")
            rejected.append(bad)
    return images, rejected


def _records(source: str, urls: Sequence[str]) -> Iterator[Foreign | Rejected]:
    """The records of all files; of several, one without captions and negatives is one rejected record.

    Raises NoColumnError if that is true of each.
    """
    without: list[NoColumnError] = []
    for url in urls:
        try:
            with naming(url):
                yield from read_pairs(url, source)
        except NoColumnError as error:
            without.append(error)
            if len(without) == len(urls):
                raise without[0] from None
            yield Rejected(name_in(source, url), 1, "not_a_record", str(error).removeprefix(f"{url}: "), "")


def _add(images: dict[str, _Image], record: Foreign, limit: int | None) -> Rejected | None:
    """Add a record to its image; returns it rejected if another image has the same id."""
    path = record.image
    if path is None:
        path = blake2b(record.captions[0].encode(), digest_size=8).hexdigest()
    key = image_id(path)
    if key not in images:
        if limit is not None and len(images) >= limit:
            return None
        images[key] = _Image(path, record.split)
    image = images[key]
    if image.image != path:
        detail = f"image must differ from others in its file name, {path} is named as {image.image}"
        return Rejected(record.source, record.line, "ambiguous_image", detail, record.captions[0][:200])
    first, *siblings = record.captions
    image.captions.setdefault(first, []).extend((record.source, label, text) for text, label in record.negatives)
    for text in siblings:
        image.captions.setdefault(text, [])
    return None


def _shards(images: Sequence[_Image], rejected: Sequence[Rejected], config: ImportConfig) -> Parts:
    """Yield a function per shard; the first also has all rejected records."""
    import pyarrow as pa

    bad = pa.Table.from_pylist([one._asdict() for one in rejected], REJECTED_RECORDS)
    counts = Counter({f"rejected.{reason}": n for reason, n in Counter(bad["reason"].to_pylist()).items()})
    tables = {"rejected_records": bad}
    start = 0
    for _, number in shard_sizes([len(image.captions) for image in images], config.shard_size):
        captions, proposals = _tables(images[start : start + number], config.source_name)
        start += number
        counts.update(captions=captions.num_rows, images=number, proposals=proposals.num_rows)
        yield partial(StageResult, {**tables, "proposals": proposals, "captions": captions}, counts)
        counts, tables = Counter(), {}


def _tables(images: Sequence[_Image], source_name: str) -> tuple[pa.Table, pa.Table]:
    import pyarrow as pa

    captions: list[dict[str, Any]] = []
    proposals: list[dict[str, Any]] = []
    for image in images:
        key = image_id(image.image)
        for n, (text, offered) in enumerate(image.captions.items()):
            caption_id = f"{source_name}:{key}:{n}"
            row = {"caption_id": caption_id, "image_id": key, "image": image.image, "split": image.split}
            captions.append({**row, "language": LANGUAGE, "origin": "human", "text": text})
            proposals += [
                {
                    "caption_id": caption_id,
                    "image_id": key,
                    "number": number,
                    "asked": label,
                    "text": negative,
                    "source": file,
                    "prompt": "",
                    "temperature": None,
                    "fingerprint": "",
                    "problem": "",
                }
                for number, (file, label, negative) in enumerate(offered)
            ]
    return pa.Table.from_pylist(captions, CAPTIONS), pa.Table.from_pylist(proposals, PROPOSALS)
