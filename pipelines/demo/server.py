"""A server on this machine alone, for the page of the demo and its questions, and what it answers."""

from __future__ import annotations

import csv
import io
import json
import sys
import threading
import warnings
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

from pydantic import Field

from ...augment.operators import OPERATORS, PRESETS
from ...augment.raters import MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL
from ...augment.settings import MaxCompatible, MaxTrue, MaxUnnatural, PreferredUnnatural, Settings
from ...augment.truth.estimates import MAX_P_TRUE
from ...schemas.fields import description
from ...schemas.negatives import NEGATIVES, POSITIVE, REASONS
from ..report.pages import page_environment, script
from ..report.rows import Row, summary

HOST = "127.0.0.1"
ENDED = "the page is closed"
EXAMPLE = ("A dog sleeps on a red couch.", "A brown puppy takes a nap in the living room.")
MOST = 20_000  # bytes of a question
MEASURES = ("p_true", "p_unnatural", "p_compatible", "plausibility")


class DemoConfig(Settings):
    """Where the page is."""

    port: Annotated[int, Field(ge=0, le=65535)] = Field(0, description="port of 127.0.0.1; 0: a free one")
    browser: bool = Field(True, description="do not open a browser")


class Demo(ThreadingHTTPServer):
    """Serves the page at / and answers its questions, JSON, at /negatives, one at a time. Only requests to an address
    of this machine are answered, and questions only from the page itself: no other site, also by DNS rebinding, can ask
    in a visitor's name.
    """

    def __init__(self, port: int = 0) -> None:
        """Bind the port, 0 for a free one. Raises OSError naming a port that cannot be had."""
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise OSError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from error
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.turn = threading.Lock()  # warnings are caught, and models used, by one thread at a time
        code, allowed = script(__package__, "rows.js", "demo.js")
        self.policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; connect-src 'self'; "
        self.policy += "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        page = page_environment(__package__).get_template("page.html.jinja")
        operators = [name for name, one in OPERATORS.items() if one.family != POSITIVE]
        says = {name: description(NEGATIVES.field(name)).partition(";")[0].partition(", by ")[0] for name in MEASURES}
        fields = {name: field.default for name, field in Question.model_fields.items()}
        shown = {"example": EXAMPLE, "presets": PRESETS, "operators": operators, "limits": LIMITS, "says": says}
        self.page = page.render(script=code, fields=fields, **shown).encode()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that the browser has closed, as it does when a page is loaded anew."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The page's URL."""
        return f"http://{HOST}:{self.server_port}/"

    def load(self) -> threading.Thread:
        """Load the models in the background: questions wait."""
        question = Question(captions=EXAMPLE)
        thread = threading.Thread(target=self.answer, args=(question,), daemon=True)
        thread.start()
        return thread

    def answer(self, question: Question) -> dict[str, Any]:
        """The answer to a question, when the others are answered."""
        with self.turn:
            return answer(question)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Demo
    timeout = 60  # seconds without a word from the client
    server_version = "negcap"
    sys_version = ""

    def do_GET(self) -> None:  # noqa: N802
        """Send the page."""
        if self._is_local() and self.path.partition("?")[0] == "/":
            self._send(HTTPStatus.OK, self.server.page, "text/html")
        else:
            self._refuse(HTTPStatus.NOT_FOUND if self._is_local() else HTTPStatus.FORBIDDEN, "no such page")

    def do_POST(self) -> None:  # noqa: N802
        """Answer a question."""
        length = self.headers.get("Content-Length", "")
        origin = self.headers.get("Origin")
        self.close_connection = True
        if not self._is_local() or (origin is not None and origin.removeprefix("http://") not in self.server.hosts):
            return self._refuse(HTTPStatus.FORBIDDEN, "only the page itself may ask")
        if self.path != "/negatives":
            return self._refuse(HTTPStatus.NOT_FOUND, "no such page")
        if self.headers.get_content_type() != "application/json":
            return self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question must be application/json")
        if not (length.isascii() and length.isdigit()):
            return self._refuse(HTTPStatus.LENGTH_REQUIRED, "a question must state its length")
        if len(length) > 9 or int(length) > MOST:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question must have at most {MOST:,} bytes")
        try:
            given = json.loads(self.rfile.read(int(length)))
            if not isinstance(given, dict):
                raise ValueError("a question must be an object")
            found = self.server.answer(Question(**given))
        except (ValueError, TypeError, RecursionError) as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, " ".join(str(error).split()))
        self._send(HTTPStatus.OK, json.dumps(found).encode(), "application/json")

    def _is_local(self) -> bool:
        return self.headers.get("Host") in self.server.hosts

    def _refuse(self, status: HTTPStatus, error: str) -> None:
        self._send(status, json.dumps({"error": error}).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        headers |= {"Content-Security-Policy": self.server.policy, "X-Content-Type-Options": "nosniff"}
        self.send_response(status)
        for name, value in {**headers, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on stderr."""


def serve(config: DemoConfig) -> None:
    """Serve the page until the process is interrupted; prints its address, and opens a browser if asked."""
    import webbrowser

    with Demo(config.port) as server:
        print(f"{server.address} (Ctrl-C ends it)", flush=True)
        server.load()
        if config.browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except BaseException as end:  # a signal
            end.add_note(ENDED)  # what the command line says of it
            raise


LEXICON = "reference"  # the captions of a visitor are too few to count
PYTHON = """\
import negcap
import pandas as pd

captions = pd.DataFrame({{"image": "photo", "caption": {captions!r}}})
negatives, rejections = negcap.negatives(captions, {arguments}, rejections=True)
"""
COMMANDS = """\
cat > captions.csv <<'END'
{rows}END
negcap build captions.csv --output outputs/demo {flags}
negcap show outputs/demo --n 100
negcap show outputs/demo --n 100 --rejections
"""


class Question(Settings):
    """Captions of one image, and how negatives are to be made of them. operators: a preset, or operators by name."""

    captions: Annotated[tuple[str, ...], Field(min_length=1)]
    operators: Annotated[str | tuple[str, ...], Field(min_length=1)] = "vse-c"
    max_true: MaxTrue = MAX_P_TRUE
    preferred_unnatural: PreferredUnnatural = PREFERRED_UNNATURAL
    max_unnatural: MaxUnnatural = MAX_UNNATURAL
    max_compatible: MaxCompatible = MAX_COMPATIBLE


LIMITS = ("max_true", "preferred_unnatural", "max_unnatural", "max_compatible")


def answer(question: Question) -> dict[str, Any]:
    """The rows of each caption, notes for the visitor, and code for the same rows, as values that JSON can represent:
    `captions`, each with `caption`, `graph`, `negatives` and `rejections` (by reason; see `reasons`), rows as
    `report.rows.summary` gives them; `notes`; `python`; `commands`. Raises ValueError for a setting or captions that
    cannot be used.
    """
    import pandas as pd

    from ... import graph, negatives  # as the code that is shown

    # A caption is one line, as the rows of a run have it: another line would be one of the commands.
    captions = [line for text in question.captions if (line := " ".join(text.split()))]
    if not captions:
        raise ValueError("captions must have one that is not blank")
    if isinstance(question.operators, str) and question.operators not in PRESETS:
        presets = ", ".join(PRESETS)
        raise ValueError(f"operators must be a preset ({presets}) or a list of operators, was: {question.operators}")
    default = {name: Question.model_fields[name].default for name in LIMITS}
    limits = {name: value for name in LIMITS if (value := getattr(question, name)) != default[name]}
    chosen = question.operators if isinstance(question.operators, str) else list(question.operators)
    arguments = {"operators": chosen, "lexicon": LEXICON, "excluded": True, **limits}
    frame = pd.DataFrame({"image": "photo", "caption": captions})
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        made, rejected = negatives(frame, rejections=True, **arguments)
    found: dict[str, dict[str, Any]] = {}
    for row in _rows(pd.concat([rejected, made])):  # every operator has made something of a caption, or rejected it
        found.setdefault(row["caption_id"], {"caption": row["caption"], "negatives": [], "rejections": {}})
    for row in _rows(made):
        found[row["caption_id"]]["negatives"].append(summary(row))
    for row in _rows(rejected):
        found[row["caption_id"]]["rejections"].setdefault(row["reason"], []).append(summary(row))
    for one in found.values():
        one["graph"] = graph(one["caption"])._asdict()
    named = [f"--preset {chosen}"] if isinstance(chosen, str) else [f"--operator {name}" for name in chosen]
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows([("image", "caption"), *(("photo", text) for text in captions)])
    sets = [f"--set {name}={value}" for name, value in arguments.items() if name != "operators"]
    return {
        "captions": [found[caption_id] for caption_id in sorted(found, key=lambda name: int(name.rpartition(":")[2]))],
        "reasons": {reason: REASONS[reason] for one in found.values() for reason in one["rejections"]},
        "notes": [str(one.message) for one in noted if issubclass(one.category, UserWarning)],
        "python": PYTHON.format(
            captions=captions, arguments=", ".join(f"{name}={value!r}" for name, value in arguments.items())
        ),
        "commands": COMMANDS.format(rows=rows.getvalue(), flags=" ".join([*named, *sets, "--scheduler synchronous"])),
    }


def _rows(frame: Any) -> list[Row]:
    """The rows of a frame, with None for what is missing."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
