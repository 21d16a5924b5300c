"""A server on this machine alone, for the page of the demo and its questions, and what it answers."""

from __future__ import annotations

import csv
import io
import json
import sys
import threading
import warnings
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from pydantic import Field

from ...augment.operators import OPERATORS, PRESETS
from ...augment.raters import MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL
from ...augment.settings import MaxCompatible, MaxTrue, MaxUnnatural, PreferredUnnatural, Settings
from ...augment.truth.estimates import MAX_P_TRUE
from ...schemas.fields import description
from ...schemas.negatives import NEGATIVES, POSITIVE, REASONS
from ..report.pages import page_environment, script
from ..report.rows import Row, summary

if TYPE_CHECKING:
    import pandas as pd

HOST = "127.0.0.1"
ENDED = "the page is closed"
EXAMPLE = ("A dog sleeps on a red couch.", "A brown puppy takes a nap in the living room.")
MOST = 20_000  # bytes of a question, at most
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
        # Host headers that name this machine; a foreign site whose name is made to lead here sends its own name.
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.turn = threading.Lock()  # warnings are caught, and models used, by one thread at a time
        code, allowed = script(__package__, "rows.js", "demo.js")
        self.policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; connect-src 'self'; "
        self.policy += "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        self.page = _page(code).encode()

    def handle_error(self, request: Any, client_address: object) -> None:
        """Say nothing of a connection that the browser has closed, as it does when a page is loaded anew."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The page's URL."""
        return f"http://{HOST}:{self.server_port}/"

    def load(self) -> threading.Thread:
        """Load the models in the background, by answering an example; questions of visitors wait until it is done."""
        question = DemoQuestion(captions=EXAMPLE)
        thread = threading.Thread(target=self.answer, args=(question,), daemon=True)
        thread.start()
        return thread

    def answer(self, question: DemoQuestion) -> DemoAnswer:
        """The answer to a question, when the others are answered."""
        with self.turn:
            return answer(question)


def _page(code: str) -> str:
    """The page with its script, and what its form shows."""
    operators = [name for name, operator in OPERATORS.items() if operator.family != POSITIVE]
    # The description of a column begins with what it measures; after a semicolon or ", by " it says how.
    meanings = {name: description(NEGATIVES.field(name)).partition(";")[0].partition(", by ")[0] for name in MEASURES}
    return (
        page_environment(__package__)
        .get_template("page.html.jinja")
        .render(
            script=code,
            fields={name: field.default for name, field in DemoQuestion.model_fields.items()},
            example=EXAMPLE,
            presets=PRESETS,
            operators=operators,
            limits={name: DemoQuestion.model_fields[name].description for name in LIMITS},
            says=meanings,
        )
    )


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
        self.close_connection = True  # what is refused is not read, so its body would be taken for the next request
        if not self._is_local() or (origin is not None and origin.removeprefix("http://") not in self.server.hosts):
            return self._refuse(HTTPStatus.FORBIDDEN, "only the page itself may ask")
        if self.path != "/negatives":
            return self._refuse(HTTPStatus.NOT_FOUND, "no such page")
        # A form of a foreign page cannot send this type without being asked by the browser first.
        if self.headers.get_content_type() != "application/json":
            return self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question must be application/json")
        if not (length.isascii() and length.isdigit()):
            return self._refuse(HTTPStatus.LENGTH_REQUIRED, "a question must state its length")
        if len(length) > 9 or int(length) > MOST:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question must have at most {MOST:,} bytes")
        try:
            fields = json.loads(self.rfile.read(int(length)))
            if not isinstance(fields, dict):
                raise ValueError("a question must be an object")
            reply = self.server.answer(DemoQuestion(**fields))
        except (ValueError, TypeError, RecursionError) as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, " ".join(str(error).split()))
        # Python would write NaN and infinities in a way that browsers cannot read: better an error here than there.
        self._send(HTTPStatus.OK, json.dumps(reply, allow_nan=False).encode(), "application/json")

    def _is_local(self) -> bool:
        """Whether the request names this machine as its host, and not a foreign site whose name leads here."""
        return self.headers.get("Host") in self.server.hosts

    def _refuse(self, status: HTTPStatus, error: str) -> None:
        """Answer with an error, as JSON."""
        self._send(status, json.dumps({"error": error}).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        """Send a whole answer of a media type, with headers by which the browser loads nothing from elsewhere."""
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.policy,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


def serve(config: DemoConfig) -> None:
    """Serve the page until the process is interrupted; prints its address, and opens a browser if asked."""
    import webbrowser

    with Demo(config.port) as server:
        print(f"{server.address} (Ctrl-C ends it)", flush=True)
        server.load()
        # The page is there at once; its first question waits until the models are loaded.
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


class DemoQuestion(Settings):
    """Captions of one image, and how negatives are to be made of them. operators: a preset, or operators by name."""

    captions: Annotated[tuple[str, ...], Field(min_length=1)]
    operators: Annotated[str | tuple[str, ...], Field(min_length=1)] = "benchmark"
    max_true: MaxTrue = MAX_P_TRUE
    preferred_unnatural: PreferredUnnatural = PREFERRED_UNNATURAL
    max_unnatural: MaxUnnatural = MAX_UNNATURAL
    max_compatible: MaxCompatible = MAX_COMPATIBLE

    def lines(self) -> list[str]:
        """The captions, each on one line, as the rows of a run have them: another line would be one of the commands.
        Raises ValueError if all are blank.
        """
        lines = [" ".join(text.split()) for text in self.captions]
        lines = [line for line in lines if line]
        if not lines:
            raise ValueError("captions must have one that is not blank")
        return lines

    def checked_operators(self) -> str | list[str]:
        """A preset, or operators by name. Raises ValueError for a text that is no preset."""
        if not isinstance(self.operators, str):
            return list(self.operators)
        if self.operators not in PRESETS:
            presets = ", ".join(PRESETS)
            raise ValueError(f"operators must be a preset ({presets}) or a list of operators, was: {self.operators}")
        return self.operators

    def settings(self) -> dict[str, Any]:
        """The arguments of `negcap.negatives` that the page asks for, apart from the operators.

        Limits that are the defaults are left out, so that the code which the page shows is short.
        """
        limits = {name: getattr(self, name) for name in LIMITS}
        changed = {name: value for name, value in limits.items() if value != type(self).model_fields[name].default}
        return {"lexicon": LEXICON, "excluded": True, **changed}


class CaptionRows(TypedDict):
    """A caption, its scene graph, and its negatives and rejections, these by reason, as `report.rows.summary` gives
    them.
    """

    caption: str
    graph: dict[str, object]
    negatives: list[list[object]]
    rejections: dict[str, list[list[object]]]


class DemoAnswer(TypedDict):
    """What the page shows: the rows of each caption, what the reasons of rejections mean, notes for the visitor, and
    Python and commands that make the same rows.
    """

    captions: list[CaptionRows]
    reasons: dict[str, str]
    notes: list[str]
    python: str
    commands: str


LIMITS = ("max_true", "preferred_unnatural", "max_unnatural", "max_compatible")


def answer(question: DemoQuestion) -> DemoAnswer:
    """The answer to a question. Raises ValueError for a setting or captions that cannot be used."""
    import pandas as pd

    from ... import graph, negatives  # as the code that is shown

    captions = question.lines()
    operators = question.checked_operators()
    settings = question.settings()
    frame = pd.DataFrame({"image": "photo", "caption": captions})
    with warnings.catch_warnings(record=True) as noted:
        # Python shows a warning once; each answer is to have its own.
        warnings.simplefilter("always")
        made, rejected = negatives(frame, operators=operators, rejections=True, **settings)
    made_rows = _rows(made)
    rejected_rows = _rows(rejected)

    by_caption: dict[str, CaptionRows] = {}
    for row in [*rejected_rows, *made_rows]:  # every operator has made something of a caption, or rejected it
        caption_id = row["caption_id"]
        if caption_id not in by_caption:
            scene_graph = graph(row["caption"])._asdict()
            by_caption[caption_id] = CaptionRows(caption=row["caption"], graph=scene_graph, negatives=[], rejections={})
    for row in made_rows:
        by_caption[row["caption_id"]]["negatives"].append(summary(row))
    for row in rejected_rows:
        by_caption[row["caption_id"]]["rejections"].setdefault(row["reason"], []).append(summary(row))

    # A caption's id ends with its number.
    in_order = sorted(by_caption, key=lambda caption_id: int(caption_id.rpartition(":")[2]))
    return {
        "captions": [by_caption[caption_id] for caption_id in in_order],
        "reasons": {reason: REASONS[reason] for rows in by_caption.values() for reason in rows["rejections"]},
        "notes": [str(note.message) for note in noted if issubclass(note.category, UserWarning)],
        "python": _python(captions, operators, settings),
        "commands": _commands(captions, operators, settings),
    }


def _python(captions: list[str], operators: str | list[str], settings: Mapping[str, object]) -> str:
    """Python code that gives the rows shown, for users to copy."""
    arguments = {"operators": operators, **settings}
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return PYTHON.format(captions=captions, arguments=shown)


def _commands(captions: list[str], operators: str | list[str], settings: Mapping[str, object]) -> str:
    """Commands of a shell that give the rows shown, for users to copy."""
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows([("image", "caption"), *(("photo", text) for text in captions)])
    flags = [f"--preset {operators}"] if isinstance(operators, str) else [f"--operator {name}" for name in operators]
    flags += [f"--set {name}={value}" for name, value in settings.items()]
    return COMMANDS.format(rows=rows.getvalue(), flags=" ".join([*flags, "--scheduler synchronous"]))


def _rows(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame, with None for what is missing."""
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]
