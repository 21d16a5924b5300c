import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.manifest import manifest_path
from negcap.pipelines.readers.files import folder_of, name_of, without_credentials

INGEST = ("--only", "ingest", "--scheduler", "synchronous")
TABLE = b"image,caption\n" + b"".join(b"%d.jpg,A dog sleeps on a red couch.\n" % i for i in range(5000))


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, half of what it promised for `half`, and a table for all else."""

    def do_GET(self) -> None:
        status = next((number for number in (403, 404, 500) if str(number) in self.path), 200)
        self.send_response(status)
        self.send_header("Content-Length", str(len(TABLE) if status == 200 else 0))
        self.end_headers()
        if status == 200 and self.command == "GET":
            self.wfile.write(TABLE[: len(TABLE) // 2] if "half" in self.path else TABLE)

    do_HEAD = do_GET  # noqa: N815  the name that http.server asks for

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def error_line(url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The only line that reading a source that cannot be read prints; nothing is written."""
    assert main(["build", url, "--output", str(folder / "run"), *INGEST, "--quiet"]) == 2
    assert not (folder / "run").exists()
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("negcap: ")


CANNOT = "cannot be read"


@pytest.mark.parametrize("url, said", [
    ("http://HOST/404.csv", "http://HOST/404.csv: no such file or folder"),
    ("http://me:secret@HOST/403.csv?token=secret", f"http://HOST/403.csv: {CANNOT}: ClientResponseError: 403"),
    ("http://HOST/half.csv", f"http://HOST/half.csv: {CANNOT}: ClientPayloadError: Response payload"),
    ("http://127.0.0.1:1/a.csv", f"http://127.0.0.1:1/a.csv: {CANNOT}: Cannot connect to host 127.0.0.1:1"),
    ("zip://a.csv::http://HOST/500.zip", "zip://a.csv::http://HOST/500.zip: no such file or folder, or not readab"),
    ("ftp://me:secret@127.0.0.1:1/a.csv", f"ftp://127.0.0.1:1/a.csv: {CANNOT}: [Errno 111] Connection refuse"),
    ("s3://bucket/a.csv", f"s3://bucket/a.csv: {CANNOT}: EndpointConnectionError: Could not connect to the"),
    *((url, f"{url}: cannot be opened: ") for url in ("data:text/csv,a", "reference://a.csv", "nowhere://a.csv")),
])  # fmt: skip
def test_what_fails_elsewhere_is_one_line_without_credentials(url, said, host, tmp_path, monkeypatch, capsys):  # type: ignore[no-untyped-def]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    line = error_line(url.replace("HOST", host), tmp_path, capsys)
    assert line.startswith(said.replace("HOST", host)) and "secret" not in line


def test_an_encrypted_archive_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", TABLE[:100])
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(mark) + flags] |= 1
    path.write_bytes(data)
    assert "File 'a.csv' is encrypted" in error_line(f"zip://a.csv::{path}", tmp_path, capsys)


def test_no_credentials_are_shown_or_kept(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://{host}/a.csv?token=secret"
    assert main(["build", url, "--output", str(tmp_path / "run"), *INGEST, "--limit", "2"]) == 0
    assert '"a.csv": "' in manifest_path(tmp_path / "run" / "captions").read_text()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert name_of(url) == "a.csv" and folder_of(url) == f"http://{host}/"
    assert name_of("odd?name=1.csv") == "odd?name=1.csv"
    told = without_credentials("s3://key:secret@b/c?versionId=1: cannot be read: GET https://u:p@h/c?X-Sig=1&b=2: no")
    assert told == "s3://b/c: cannot be read: GET https://h/c: no"
