"""The client of chat endpoints, against servers on the loopback that answer well, badly, slowly or not at all."""

import base64
import gzip
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from negcap.pipelines.endpoint import client, messages
from negcap.pipelines.endpoint.client import AnswerCache, Endpoint, EndpointError, Spent
from negcap.pipelines.endpoint.keys import without_key
from negcap.pipelines.endpoint.messages import ChatAnswer, EndpointConfig, Request, chat
from tests.pipelines.endpoint.server import DRIPS, ENDLESS, OK, completion, serving


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


def echo(body: dict[str, Any], number: int) -> dict[str, Any]:
    return {"text": f"to {body['messages'][-1]['content']}"}


def config(url: str, **given: Any) -> EndpointConfig:
    return EndpointConfig(url=url, model="mock", **{"max_tokens": 30, **given})


def ask(url: str, cache: Path, texts: list[str], **given: Any) -> tuple[list[ChatAnswer], Spent]:
    """The answers to messages, in the order of the messages, and what has been spent."""
    with Endpoint(config(url, **given), cache / "answers.sqlite", "test") as endpoint:
        answers = list(endpoint.ask(map(chat, texts)))
        assert len(answers) == len(texts)
        return answers, endpoint.spent


def test_answers_come_with_what_the_server_says_of_itself(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with serving(echo) as server:
        (answer,), spent = ask(server.url, tmp_path, ["hello"], temperature=0.5, seed=7, extra='{"top_p": 0.9}')
        assert answer == ChatAnswer("answered", "to hello", "", "mock-1", "fp_mock", 30) and spent == Spent(1, 30)
        assert server.headers["authorization"] == "Bearer sk-secret"
        own = {"model": "mock", "temperature": 0.5, "max_tokens": 30, "seed": 7, "top_p": 0.9}
        assert server.bodies == [{**own, "messages": [{"role": "user", "content": "hello"}]}]
        for wrong in ("ключ", "sk-a\nsk-b", "sk-a sk-b"):
            monkeypatch.setenv("OPENAI_API_KEY", wrong)
            with pytest.raises(
                ValueError, match="OPENAI_API_KEY must be an API key, in ASCII and without spaces, was not$"
            ):
                ask(server.url, tmp_path, ["hello"])
        monkeypatch.delenv("OPENAI_API_KEY")
        ask(server.url, tmp_path, ["without a key"])
        assert "authorization" not in server.headers


def test_a_rerun_costs_nothing_and_another_request_does(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(5)]
    with serving(echo) as server:
        first, _ = ask(server.url, tmp_path, texts)
        again, spent = ask(server.url, tmp_path, texts)
        assert len(server.bodies) == 5 and spent == Spent(5, 150)
        assert [answer.text for answer in again] == [answer.text for answer in first] == [f"to {t}" for t in texts]
        assert all(answer.cached for answer in again) and not any(answer.cached for answer in first)
        ask(server.url, tmp_path, ["same"] * 5, temperature=1.0)
        assert len(server.bodies) == 5 + 1  # equal requests are sent once


def test_the_key_of_an_answer_stays_as_it_is_on_disks() -> None:
    body = chat("ü", "s").body(config("http://a/v1/", temperature=0.5))
    messages = '[{"content": "s", "role": "system"}, {"content": "ü", "role": "user"}]'
    assert body.decode() == f'{{"max_tokens": 30, "messages": {messages}, "model": "mock", "temperature": 0.5}}'
    assert client.request_key(config("http://a/v1/"), body).startswith("73fa0e85b04c6607")


def test_as_many_requests_are_in_flight_as_allowed(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)  # breaks unless as many are in flight
    with serving(lambda body, number: {"text": str(barrier.wait(5))}) as server:
        ask(server.url, tmp_path, [f"text {i}" for i in range(12)], concurrency=4)
        assert server.answered == 12 and server.most_running == 4


PASSING: dict[str, dict[str, Any]] = {
    "HTTP 500 Internal Server Error: Traceback": {"status": 500, "body": b"Traceback"},
    "HTTP 429 Too Many Requests": {"status": 429, "headers": {"Retry-After": "0"}},
    "no connection, at any attempt: ": {"body": completion("half"), "cut": 20},
}


@pytest.mark.parametrize("fault", PASSING)
def test_faults_that_pass_are_waited_for_and_others_end_in_one_line(fault: str, tmp_path: Path) -> None:
    with serving(lambda body, number: PASSING[fault] if number < 2 else echo(body, number)) as server:
        (answer,), spent = ask(server.url, tmp_path, ["hello"])
        assert answer.text == "to hello" and len(server.bodies) == 3 and spent.requests == 1
        server.behaviour = lambda body, number: PASSING[fault]
        with pytest.raises(EndpointError, match=rf"^http://\S+/chat/completions: {fault}") as error:
            ask(server.url, tmp_path, [f"text {i}" for i in range(50)], attempts=3, concurrency=2)
        assert "\n" not in str(error.value)
        assert len(server.bodies) <= 3 + 2 * 3


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b'{"choices": []}', b"[1, 2]"])
def test_what_is_no_completion_is_refused_and_paid(body: bytes, tmp_path: Path) -> None:
    with serving(lambda asked, number: {"body": body} if "bad" in str(asked) else echo(asked, number)) as server:
        answers, spent = ask(server.url, tmp_path, ["good", "bad"], concurrency=1)
        assert [answer.status for answer in answers] == ["answered", "refused"] and spent == Spent(2, 30 + 31)
        with pytest.raises(EndpointError, match="refuses every request: not a chat completion"):
            ask(server.url, tmp_path, [f"bad {i}" for i in range(9)], concurrency=1)


def test_counts_of_tokens_that_cannot_be_are_passed_over() -> None:
    for tokens, counted in (((10**30, 1), 1), ((1, 1 << 63), 1), ((-5, 1), 1), ((-(10**30), 1 << 40), None)):
        assert messages.parse_answer(completion("yes", tokens)).tokens == counted


@pytest.mark.parametrize(("text", "found"), [
    ('{"a": 1}', {"a": 1}),
    ('Sure:\n```json\n{"a": [1]}\n```\nAs in [2].', {"a": [1]}),
    ('<think>{"a": 0}</think>I say [1], or rather {"a": 2}', {"a": 2}),
    ('<think>{"a": 0}<think></think>[3]</think> [4', [3]),
    ('In {x} and [y, [z], "[" I find ["a [b"] … {"a": [1, {"b": 2}', {"b": 2}),
    ("```\nfirst\n``` then ```json[5]``` and ```[6]", [5]),
    ("```json\n[7]", [7]),
    ("{no} " * 500 + '{"a": 8}', {"a": 8}),
], ids=range(8))  # fmt: skip
def test_json_is_found_in_what_a_model_says(text: str, found: object) -> None:
    assert messages.json_in(text) == found


def test_a_server_that_is_down_or_too_slow(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="no connection, at any attempt: .*refused"):
        ask("http://127.0.0.1:1/v1", tmp_path, ["hello"], attempts=2)
    release = threading.Event()
    with serving(lambda body, number: {"text": str(release.wait(5))}) as server:
        with pytest.raises(EndpointError, match=r"no answer within 0.1 s, at any attempt"):
            ask(server.url, tmp_path, ["hello"], attempts=2, timeout=0.1)
        (answer,), spent = ask(server.url, tmp_path, ["hello"], max_requests=1)
        assert answer.status == "budget" and spent == Spent(1, 32) and len(server.bodies) == 2  # it may have to be paid
        release.set()


def test_one_request_may_be_refused_but_not_all_and_some_refusals_stop_at_once(tmp_path: Path) -> None:
    with serving(echo) as server:
        for number, status in enumerate((401, 404, 302), 1):
            server.behaviour = lambda *_: {"status": status, "body": b"wrong\nkey"}  # noqa: B023
            with pytest.raises(EndpointError, match=rf"HTTP {status}.*wrong key"):
                ask(server.url, tmp_path, ["hello"])
            assert len(server.bodies) == number
        refused = {"status": 400, "body": b"content filter"}
        server.behaviour = lambda body, number: refused if "bad" in str(body) else echo(body, number)
        answers, spent = ask(server.url, tmp_path, ["good", *(f"bad {i}" for i in range(9))], concurrency=1)
        assert [answer.status for answer in answers] == ["answered", *["refused"] * 9]
        assert answers[1].detail == "HTTP 400 Bad Request: content filter" and spent.requests == 1
        with pytest.raises(EndpointError, match="refuses every request: HTTP 400"):
            ask(server.url, tmp_path, [f"bad {i}" for i in range(9)], concurrency=1)


KEY = "sk-proj/Ab+Cd-0123456789-SECRET"
SPELLINGS = {
    "header": f"Authorization: Bearer {KEY}",
    "upper case": KEY.upper(),
    "last characters": f"wrong key ****{KEY[-10:]}",
    "in a URL": quote_plus(KEY),
    "twice in a URL": quote_plus(quote_plus(KEY)),
    "HTML": "".join(f"&#{ord(letter)};" for letter in KEY),
    "JSON": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "over lines": "\n".join(KEY),
    "base64": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
}


def has_key(text: str) -> bool:
    return any(piece.lower() in text.lower() for piece in (KEY[:10], KEY[-8:], KEY[8:18], quote_plus(KEY)[:10]))


@pytest.mark.parametrize("spelt", SPELLINGS)
def test_a_key_is_hidden_in_any_spelling(spelt: str) -> None:
    shown = without_key(f"No: {SPELLINGS[spelt]} is bad", KEY)
    assert "[API key]" in shown and not has_key(shown) and SPELLINGS[spelt][-8:].lower() not in shown.lower()


@pytest.mark.parametrize("answer", [
    f"HTTP/1.1 400 No\r\n\r\n{' x' * 92}{KEY}",
    f"HTTP/1.1 401 wrong {KEY}\r\n\r\n",
    f"HTTP/1.1 307 Moved\r\nLocation: http://elsewhere.example/?key={quote_plus(KEY)}\r\n\r\n",
    f"HTTP/1.1 2{KEY}\r\n\r\n",
], ids=["text", "status", "place", "no status"])  # fmt: skip
def test_a_key_that_the_server_repeats_is_not_printed(answer: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(lambda body, number: {"raw": [answer.encode()]}) as server, pytest.raises(EndpointError) as error:
        ask(server.url, tmp_path, [f"text {i}" for i in range(9)], attempts=1, concurrency=1)
    assert not has_key(str(error.value))


@pytest.mark.parametrize("place", DRIPS)
def test_an_answer_that_drips_has_as_much_time_as_any_other(place: str, tmp_path: Path) -> None:
    with serving(lambda body, number: {"raw": DRIPS[place]()}) as server:
        began = time.monotonic()
        with pytest.raises(EndpointError, match=r"no answer within 0.2 s, at any attempt"):
            ask(server.url, tmp_path, ["hello"], timeout=0.2, attempts=2)
        assert time.monotonic() - began < 4 and len(server.bodies) == 2


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_answer_has_a_largest_size(kind: str, tmp_path: Path) -> None:
    with serving(lambda body, number: {"raw": ENDLESS[kind]()} if number else echo(body, number)) as server:
        tracemalloc.start()
        answers, _ = ask(server.url, tmp_path, ["one", "two"], max_bytes=100_000, concurrency=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        refused = "HTTP 400 Bad: xxxx" if kind == "an error" else r"an answer must have <= 100,000 bytes (max_bytes)"
        assert answers[0].status == "answered" and answers[1].detail.startswith(refused)
        assert most < 20_000_000 and server.sent < 20_000_000


def test_an_answer_may_be_packed_and_elsewhere_on_the_host_and_a_broken_one_is_asked_for_again(tmp_path: Path) -> None:
    head = OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
    moved = {"status": 307, "headers": {"Location": "/v2/"}}
    broken, packed = ({"raw": [head, data]} for data in (b"\x1f\x8b nothing", gzip.compress(completion("yes"))))
    with serving(lambda body, number: [moved, broken, moved, packed][number]) as server:
        (answer,), _ = ask(server.url, tmp_path, ["hello"])
        assert answer.text == "yes" and len(server.bodies) == 4


@pytest.mark.parametrize("place", ["elsewhere", "//elsewhere.example/v1", "ftp://127.0.0.1/", "/v1/"])
def test_requests_do_not_leave_their_host_nor_go_in_circles(place: str, tmp_path: Path) -> None:
    with serving(echo) as other, serving(echo) as server:
        leads = {
            "status": 307,
            "headers": {"Location": f"{other.url}/chat/completions" if place == "elsewhere" else place},
        }
        server.behaviour = lambda body, number: leads
        with pytest.raises(EndpointError, match=r"HTTP 307 .*: points to \S+, which is not followed"):
            ask(server.url, tmp_path, ["hello"])
        assert other.bodies == []


@pytest.mark.parametrize("text", [
    '{["' * 300_000, "[" + '"[' * 500_000, '["' + "a" * 1000 + '",' + '["b",' * 100_000,
    "<think>" * 200_000, "```" * 300_001, "</think>" * 200_000,
], ids=lambda text: text[:8])  # fmt: skip
def test_a_long_answer_is_not_read_again_at_every_character(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="must be JSON, has none"):
        messages.json_in(text)
    messages.without_thoughts(text)
    assert time.process_time() - began < 3


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("limits, sent", [({"max_requests": 5}, 5), ({"max_total_tokens": 220}, 7)])
def test_the_budget_is_never_exceeded_and_counts_earlier_calls(limits, sent, concurrency, tmp_path):
    texts = [f"text {i:02}" for i in range(10)]  # each reserves 3 + 30 tokens, and costs 30
    with serving(echo) as server:
        answers, spent = ask(server.url, tmp_path, texts, concurrency=concurrency, **limits)
        assert len(server.bodies) == sent == spent.requests
        assert [answer.status for answer in answers].count("budget") == 10 - sent
        again, _ = ask(server.url, tmp_path, texts, concurrency=concurrency, **limits)
        assert len(server.bodies) == sent and sum(answer.cached for answer in again) == sent


KILLED = """
import sys
from pathlib import Path
from negcap.pipelines.endpoint.client import Endpoint
from negcap.pipelines.endpoint.messages import EndpointConfig, chat
config = EndpointConfig(url=sys.argv[1], model="mock", max_tokens=30, concurrency=1)
with Endpoint(config, Path(sys.argv[2]), "test") as endpoint:
    for answer in endpoint.ask(chat(f"text {i}") for i in range(60)):
        pass
"""


def test_a_kill_loses_no_answer_that_was_received(tmp_path: Path) -> None:
    def slowly(body: dict[str, Any], number: int) -> dict[str, Any]:
        time.sleep(0.02)
        return echo(body, number)

    with serving(slowly) as server:
        command = [sys.executable, "-c", KILLED, server.url, str(tmp_path / "answers.sqlite")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while server.answered < 8 and process.poll() is None:
                time.sleep(0.005)
            process.kill()  # SIGKILL
        served = len(server.bodies)
        assert 8 <= served < 60
        server.behaviour = echo
        answers, spent = ask(server.url, tmp_path, [f"text {i}" for i in range(60)])
        assert sum(answer.cached for answer in answers) >= served - 1  # but the one in flight at the kill
        assert len(server.bodies) <= 61 and spent.requests >= 60


def test_a_caller_who_stops_keeps_what_is_in_flight_and_waits_for_no_drips(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(client, "GRACE", 0.3)

    def slowly(body: dict[str, Any], number: int) -> dict[str, Any]:
        if "text 0" in str(body):
            return echo(body, number)
        time.sleep(0.05)
        return echo(body, number) if "text 1" in str(body) else {"raw": DRIPS["body"]()}

    with serving(slowly) as server:
        with Endpoint(config(server.url), tmp_path / "answers.sqlite", "test") as endpoint:
            answers = endpoint.ask(chat(f"text {i}") for i in range(100))
            next(answers)
            began = time.monotonic()
            answers.close()
            assert time.monotonic() - began < 2
            assert 17 >= endpoint.spent.requests >= len(server.bodies)  # those given up may have to be paid
        (kept,), _ = ask(server.url, tmp_path, ["text 1"])
        assert kept.cached


def test_images_are_sent_as_data(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    request = chat("what is it?", "be brief", [tmp_path / "a.png"])
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    user = {"role": "user", "content": [image, {"type": "text", "text": "what is it?"}]}
    assert request == Request([{"role": "system", "content": "be brief"}, user])
    assert request.tokens(config("http://a/v1", max_tokens=5)) == 7 + 1000 + 5
    with pytest.raises(ValueError, match="image must be a file named as one"):
        chat("", images=[tmp_path / "a.txt"])


def test_settings_that_make_no_request_are_refused() -> None:
    for given, message in (
        ({"url": "localhost:8000"}, "was: localhost:8000"),
        ({"url": "http://me:secret@host/v1"}, r"was: http://host/v1$"),
        ({"extra": "[1]"}, r"extra must be a JSON object, was: \[1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            config(**{"url": "http://host/v1", **given})


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_text("no database, but long enough to be looked at as one" * 20)
    with pytest.raises(ValueError, match="must be a cache of answers"):
        AnswerCache(tmp_path / "a.sqlite")
