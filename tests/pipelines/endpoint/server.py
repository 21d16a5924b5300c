"""A chat endpoint on the loopback, of known behaviour, that counts what it was asked."""

import gzip
import http.server
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# status, headers, body (bytes), or text: that of a good answer; cut: bytes left out at the end; raw: instead of these,
# what is sent piece by piece (an iterator of bytes), status line and all
Reply = dict[str, Any]
Behaviour = Callable[[dict[str, Any], int], Reply]


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def drip(*first: bytes, piece: bytes = b" ") -> Iterator[bytes]:
    """What begins at once and then goes on, byte by byte, without an end."""
    yield from first
    while True:
        time.sleep(0.05)
        yield piece


DRIPS: dict[str, Callable[[], Iterator[bytes]]] = {  # where a slow answer is when the time is over
    "status": lambda: drip(b"HTTP/1.1 200 ", piece=b"K"),
    "headers": lambda: drip(OK, piece=b"X: y\r\n"),
    "body": lambda: drip(OK + b"\r\n"),
    "chunks": lambda: drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", piece=b"1\r\n \r\n"),
    "an error": lambda: drip(b"HTTP/1.1 400 Bad\r\n\r\n"),
}
LARGE = gzip.compress(bytes(50_000_000), 1)
# Answers without an end, or that become large when they are unpacked
ENDLESS: dict[str, Callable[[], Iterable[bytes]]] = {
    "text": lambda: itertools.chain([OK + b"\r\n"], itertools.repeat(b" " * 65536)),
    "an error": lambda: itertools.chain([b"HTTP/1.1 400 Bad\r\n\r\n"], itertools.repeat(b"x" * 65536)),
    "packed": lambda: [OK + b"Content-Encoding: gzip\r\n\r\n", LARGE],
}


class Server:
    """What the server was asked: bodies, in order, and headers of the last; and what it answered (HTTP 200)."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.bodies: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.answered = self.running = self.most_running = 0
        self.sent = 0  # bytes of raw answers
        self.lock = threading.Lock()
        self.url = ""


def completion(text: str, tokens: tuple[int, int] = (20, 10)) -> bytes:
    """The JSON of a chat completion."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    value = {"id": "x", "object": "chat.completion", "model": "mock-1", "system_fingerprint": "fp_mock", "usage": usage}
    value["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps(value).encode()


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[Server]:
    """Serve on a free port; behaviour(body, number of the request from 0) says what is answered."""
    state = Server(behaviour)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with state.lock:
                number = len(state.bodies)
                state.bodies.append(body)
                state.headers = {name.lower(): value for name, value in self.headers.items()}
                state.running += 1
                state.most_running = max(state.most_running, state.running)
            try:
                reply = state.behaviour(body, number)
                for piece in reply.get("raw", ()):
                    self.wfile.write(piece)
                    self.wfile.flush()
                    state.sent += len(piece)
                if "raw" in reply:
                    self.close_connection = True
                    return
                data = reply.get("body", completion(reply["text"]) if "text" in reply else b"")
                self.send_response(reply.get("status", 200))
                for name, value in reply.get("headers", {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                cut = reply.get("cut", 0)
                self.wfile.write(data[: len(data) - cut])
                self.close_connection = bool(cut)
                if reply.get("status", 200) == 200 and not cut:
                    with state.lock:
                        state.answered += 1
            except (BrokenPipeError, ConnectionResetError):  # the client has given up
                self.close_connection = True
            finally:
                with state.lock:
                    state.running -= 1

        def log_message(self, *_: object) -> None:
            pass

    class Loopback(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    with Loopback(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield state
        server.shutdown()
