"""HTTP as the client of endpoints uses it: an answer has limits of time and size, and no request leaves its host."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import httpx2  # the library openai is built on it
import openai

MAX_REDIRECTS = 5  # on the host itself, as from /v1 to /v1/
_OF_TRANSFER = (b"content-encoding", b"content-length", b"transfer-encoding")  # headers that a read answer lacks
_PACKED = ("gzip", "x-gzip", "deflate")  # content encodings


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """A client that gives up on an answer that is not there, whole, after some seconds, or is too large.

    httpx2 alone only limits each read, so a server that sends a byte now and then would hold it for ever. Of an answer
    that is too large, the first max_bytes + 1 bytes are read, however little of it was sent packed. Redirects are
    followed on the same host only: requests hold captions and pictures.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        super().__init__(follow_redirects=False, headers={"Accept-Encoding": "gzip, deflate"})
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """The response to a request, read. Raises httpx2.TimeoutException or another httpx2.RequestError."""
        try:
            async with asyncio.timeout(self._seconds):
                response = await super().send(request, stream=True, **options)
                # The library would follow to any host; here each place is looked at first.
                for _ in range(MAX_REDIRECTS):
                    follow = response.next_request
                    if follow is None or not _is_same_host(request.url, follow.url):
                        break
                    await response.aclose()
                    response = await super().send(follow, stream=True, **options)
                try:
                    content = await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx2.ReadTimeout("the answer was not complete in time", request=request) from None
        except zlib.error as error:
            raise httpx2.DecodingError(f"a packed answer is broken: {error}", request=request) from None
        return httpx2.Response(
            response.status_code,
            # The content is unpacked and whole, which these headers would deny.
            headers=[header for header in response.headers.raw if header[0].lower() not in _OF_TRANSFER],
            content=content,
            request=response.request,
            extensions=response.extensions,
        )

    async def _read(self, response: httpx2.Response) -> bytes:
        """The content of a response, unpacked; of more than max_bytes, one byte more than that."""
        packed = response.headers.get("Content-Encoding", "").strip().lower() in _PACKED
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32) if packed else None  # 32: gzip or zlib, by its head
        content = bytearray()
        # One byte too many tells the caller that the answer is too large, and is all that is unpacked of a packed one.
        size = self._max_bytes + 1
        async for chunk in response.aiter_raw():
            content += unpacker.decompress(chunk, size - len(content)) if unpacker else chunk
            if len(content) >= size:
                break
        return bytes(content[:size])


def _is_same_host(first: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether two URLs lead to the same host and port, or from HTTP to HTTPS on a host's usual ports."""
    if (first.scheme, first.host, first.port) == (other.scheme, other.host, other.port):
        return True
    is_upgrade = (first.scheme, other.scheme) == ("http", "https")
    has_usual_ports = first.port is None and other.port is None
    return is_upgrade and first.host == other.host and has_usual_ports
