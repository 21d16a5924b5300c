"""Faults that come from outside: endpoints, inputs and streams that do not behave. Each command must end soon, with the
status that is expected and at most one line on stderr.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines.endpoint.client import GRACE
from tests.benchmarks.injection import Ended, Fork
from tests.pipelines.endpoint.server import DRIPS, ENDLESS, Reply, serving

if TYPE_CHECKING:
    from tests.benchmarks.faults import Bench

SOON = 30.0  # seconds that a command may take; all of them have little to do
KEY = "sk-0123456789-of-the-bench"
ASKING = "--model mock --sample 4 --seed 1 --overwrite --set attempts=1 --set max_bytes=1000000".split()


def wrong_end(ended: Ended, status: int, words: str = "", seconds: float = SOON) -> str:
    """What is wrong with how a command ended: "" if nothing is. words: what its line must have."""
    lines = ended.err.strip().splitlines()
    if ended.status != status:
        return f"status {ended.status} instead of {status}: {' '.join(lines)[:160]}"
    if words not in ended.err:
        return f"it does not say {words!r}: {' '.join(lines)[:160]}"
    if len(lines) > 1:
        return f"{len(lines)} lines: {lines[-1][:160]}"
    if ended.seconds > seconds:
        return f"it took {ended.seconds:.0f} s"
    return "the key is printed" if KEY in ended.out + ended.err else ""


def bad_endpoints(bench: Bench) -> None:
    """Servers that send an answer byte by byte, without an end or far too much of it, that repeat the key or lead to
    another host, and a signal while they answer.
    """
    answers: dict[str, Callable[[], Reply]] = {
        **{f"{place} drips": lambda of=of: {"raw": of()} for place, of in DRIPS.items()},  # type: ignore[misc]
        **{f"endless, {kind}": lambda of=of: {"raw": of()} for kind, of in ENDLESS.items()},  # type: ignore[misc]
        "brackets": lambda: {"text": '{["' * 30_000},
        "thoughts": lambda: {"text": "<think>" * 12_000},
        "key repeated": lambda: {"status": 401, "body": f"Authorization: Bearer {KEY}".encode()},
        "other host": lambda: {"status": 307, "headers": {"Location": "http://127.0.0.1:9/v1"}},
    }
    refused = {  # what else is paid for, and answered with nothing
        "key repeated": "HTTP 401",
        "other host": "is not followed",
        **{f"{place} drips": "no answer within 3 s" for place in DRIPS},
        **{f"endless, {kind}": "refuses every request" for kind in ENDLESS},
    }
    cases = [(name, None) for name in answers] + [(name, signal.SIGTERM) for name in answers if "drips" in name]
    for name, sent in bench.some(cases):
        with serving(lambda body, number: answers[name]()) as server:  # noqa: B023
            run = shutil.copytree(bench.reference, bench.new())
            command = ["propose", str(run), "--url", server.url, *ASKING, "--scheduler", "synchronous", "--quiet"]
            command += ["--set", "timeout=3" if sent is None else "timeout=600"]
            asking = Fork(command, lambda: os.environ.update(OPENAI_API_KEY=KEY))
            if sent is None:
                said = wrong_end(asking.wait(), 2 if name in refused else 0, refused.get(name, ""))
            else:
                while not server.bodies and asking.running():
                    time.sleep(0.01)
                began = time.monotonic()
                if asking.running():
                    asking.stop(sent)
                ended = asking.wait()._replace(seconds=time.monotonic() - began)
                said = wrong_end(ended, 128 + sent, "stopped by", GRACE + 5)
            shutil.rmtree(run.parent)
        bench.count("endpoint", f"{name}{f', {sent.name}' if sent else ''}", said)


def _parquet(columns: list[tuple[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays([pa.array(values) for _, values in columns], [name for name, _ in columns]), sink
    )
    return sink.getvalue().to_pybytes()


def _coco(**more: Any) -> str:
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(4)]
    annotations = [{"id": n, "image_id": n % 4, "caption": "A man rides a brown horse."} for n in range(8)]
    return json.dumps({"images": images, "annotations": annotations} | more)


TEXTS = ["A man rides a brown horse.", "A cat sits on a mat."]
ENDS = "does it end?"
INPUTS: dict[str, tuple[str, Callable[[], str | bytes], str]] = {  # name of a file, its content, why it is refused
    "string without an end": ("a.json", lambda: '{"annotations": [{"caption": "' + "no end " * 6_000_000, ENDS),
    "escapes without an end": ("a.json", lambda: '[{"caption": "' + "\\\\" * 20_000_000, ENDS),
    "number without an end": ("a.json", lambda: '{"annotations": [{"image_id": ' + "1" * 40_000_000, ENDS),
    "brackets": ("a.json", lambda: "[" * 5_000_000, "a.json: "),
    "brackets in lines": ("a.jsonl", lambda: ("[" * 100_000 + "\n") * 20, "a.jsonl: "),
    "NaN in the head": ("a.json", lambda: _coco(info={"score": float("nan")}), ""),
    "infinity": ("a.json", lambda: _coco(info=[-float("inf"), float("inf")]), ""),
    "an id of two images": (
        "a.json",
        lambda: _coco(images=[{"id": number // 2, "file_name": f"{number}.jpg"} for number in range(6)]),
        "ambiguous_image",
    ),
    "a column twice": (
        "a.parquet",
        lambda: _parquet([("image", TEXTS), ("caption", TEXTS), ("caption", TEXTS)]),
        "one column caption",
    ),
    "binary captions": (
        "a.parquet",
        lambda: _parquet([("image", TEXTS), ("caption", [b"A cat.", b"A dog."])]),
        "caption is binary",
    ),
}
PIPES = ("a.json", "a.csv", "a.parquet", "a.tar", "a.csv.gz", "a.txt")


def bad_inputs(bench: Bench) -> None:
    """Inputs that do not end, that are pipes, or hold what their format does not have."""
    for name in bench.some([*INPUTS, *(f"pipe {file}" for file in PIPES)]):
        folder = bench.new()
        folder.mkdir(parents=True)
        if name in INPUTS:
            file, content, why = INPUTS[name]
            made = content()
            (folder / file).write_bytes(made.encode() if isinstance(made, str) else made)
        else:
            file, why = name.removeprefix("pipe "), "is a pipe"
            os.mkfifo(folder / file)
        command = ["build", str(folder / file), "--output", str(folder / "run"), "--only", "ingest"]
        ended = Fork([*command, "--scheduler", "synchronous", "--quiet"]).wait()
        bench.count("input", name, wrong_end(ended, 2 if why else 0, why))
        shutil.rmtree(folder.parent)


def narrow_streams(bench: Bench) -> None:
    """A standard output of few characters, as of a terminal without a locale."""
    for encoding in bench.some(["ascii", "latin-1", "cp1252", "koi8-r"]):

        def narrow(encoding: str = encoding) -> None:
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding=encoding)

        run = bench.new()
        ended = Fork(bench.build(run), narrow).wait()
        said = wrong_end(ended, 0)
        if not said:
            said = wrong_end(Fork(["show", str(run), "--n", "50"], narrow).wait(), 0)
        bench.judge("stream", encoding, run, said)
