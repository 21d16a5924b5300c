"""Sources on other machines or in archives: which protocols are read, and how their errors are told.

Every file system of fsspec, and every library below one, has errors of its own. Here they become one line that names
the source and the cause, without the user names, passwords and signatures that a URL may hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

PROTOCOLS = (
    *("file", "local", "memory", "http", "https", "ftp", "sftp", "ssh", "smb"),
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss"),
    *("hdfs", "arrow_hdfs", "webhdfs", "hf", "github"),
    *("zip", "tar", "libarchive", "dir", "simplecache", "filecache", "blockcache"),
)
_USER = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"(?<=[^\s:?])\?[^\s:'\"]*=[^\s:'\"]*")
_FOUND = (FileNotFoundError, ValueError, MemoryError, RecursionError, AssertionError)  # they name file and rule


def check_protocol(source: str) -> None:
    """Raise ValueError if a path or URL, or a part of a chained URL (`zip://a.csv::s3://b/c.zip`), is none we read."""
    for part in source.split("::"):
        scheme, separator, _ = part.partition("://")
        if not separator:
            chained = "::" in source and re.fullmatch(r"[a-z]+", part)
            scheme = part if chained else "data" if part.startswith("data:") else "file"
        if scheme and scheme not in PROTOCOLS:
            raise ValueError(
                f"{without_credentials(source)}: protocol must be one of {', '.join(PROTOCOLS)}, was: {scheme[:40]}"
            )


def without_credentials(text: str) -> str:
    """A URL, or a message with URLs, without user names and passwords (`//user:password@`) and queries (`?token=…`)."""
    return _QUERY.sub("", _USER.sub("", text)) if "://" in text else text


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Turn an error while a source is read into a ValueError or FileNotFoundError of one line, as described above."""
    try:
        yield
    except _FOUND as error:
        shown = without_credentials(str(error))
        if isinstance(error, FileNotFoundError) and " " not in shown:  # of fsspec, which says no more than the URL
            shown = f"{without_credentials(source)}: no such file or folder, or not readable: {shown}"
        if shown == str(error):
            raise
        raise (FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError)(shown) from None
    except Exception as error:
        if type(error).__module__ == "builtins" and not isinstance(error, (OSError, RuntimeError)):
            raise  # a fault of ours
        cause = " ".join(str(error).split())[:300] or type(error).__name__
        named = cause if isinstance(error, OSError) else f"{type(error).__name__}: {cause}"
        raise ValueError(without_credentials(f"{source}: cannot be read: {named}")) from error
