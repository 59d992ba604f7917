"""The server over HTTP: each request gets its own answer, or an error of one line."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tiny_run import complaint

from nmt.serving.server import BODY, Server

KIND = {"Content-Type": "application/json"}
GOOD = json.dumps({"text": "one two"})


def ask(server: Server, body: str | bytes | None = GOOD, method: str = "POST",
        path: str = "/translate", **headers: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, JSON and headers of an answer."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, body, {**KIND, **{
        name.replace("_", "-"): value for name, value in headers.items()}})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else {}, dict(answer.getheaders())


def raw(server: Server, request: bytes) -> bytes:
    """The answer to these bytes."""
    with socket.create_connection(("127.0.0.1", server.server_port), 30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_answers_and_refusals(serving: Any, run: Path) -> None:
    """Each wrong request is one line of JSON that names no path; the next is answered."""
    server = serving(words=8)
    cases: list[tuple[int, str, dict[str, Any]]] = [
        (400, "expected JSON", {"body": "{"}), (400, "expected JSON", {"body": b"\xff"}),
        (400, "expected JSON", {"body": "[" * 100_000}),
        (400, "expected an object", {"body": "1"}),
        (400, "at most 1000 characters, got 50000",
         {"body": json.dumps({"text": "word " * 10_000})}),
        (400, "at most 8 words, got 9", {"body": json.dumps({"text": "a " * 9})}),
        (400, "expected a number", {"Content_Length": "-1"}),
        (400, "Host: expected", {"Host": "evil.example"}),
        (400, "Host: expected", {"Host": "[::"}),
        (404, "expected one of /, /translate", {"path": "/../../etc/passwd"}),
        (405, "/translate: expected POST", {"method": "GET", "body": None}),
        (405, "/: expected GET, HEAD", {"path": "/"}),
        (405, "Method Not Allowed|Not Allowed", {"method": "DELETE"}),
        (411, "Content-Length", {"Transfer_Encoding": "chunked", "body": None}),
        (413, f"at most {BODY} bytes", {"body": "x" * (BODY + 1)}),
        (415, "expected application/json", {"Content_Type": "text/plain"}),
    ]
    for status, message, given in cases:
        got, answer, headers = ask(server, **given)
        assert got == status, given
        assert any(phrase in answer["error"] for phrase in message.split("|")), answer
        assert "\n" not in answer["error"] and str(run.parent) not in json.dumps(answer)
        assert headers["Cache-Control"] == "no-store" and "Python" not in headers["Server"]
    for host in ("localhost:1", "127.0.0.1", "[::1]:8000"):
        status, answer, _ = ask(server, Host=host)
        assert (status, answer["source"]) == (200, ["one", "two"])
    assert str(run.parent) not in json.dumps(answer)


def test_what_is_not_http(serving: Any) -> None:
    server = serving()
    for request in (b"\0\1\2\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /\r\n\r\n",
                    b"GET /" + b"x" * 70_000 + b" HTTP/1.0\r\n\r\n",
                    b"GET / HTTP/1.0\r\n" + b"a: b\r\n" * 200 + b"\r\n",
                    b"POST /translate HTTP/1.0\r\nHost: localhost\r\n\r\n",
                    b"GET / HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n\r\n"):
        head, _, body = raw(server, request).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 4") or b" 505 " in head, head
        assert body.count(b"\n") == 1 and json.loads(body)["error"]


def test_the_page(serving: Any, run: Path) -> None:
    server = serving()
    page = raw(server, b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").decode()
    head, _, body = page.partition("\r\n\r\n")
    assert "Content-Security-Policy: default-src 'none'; script-src 'sha256-" in head
    assert "connect-src 'self'" in head and "frame-ancestors 'none'" in head
    assert body.startswith("<!doctype html>") and str(run.parent) not in body
    assert raw(server, b"HEAD / HTTP/1.0\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\n")


def test_ten_at_once(serving: Any, monkeypatch: Any) -> None:
    """One request is answered, two wait, seven are refused; each client gets its own answer."""
    server, gate, running = serving(waiting=2), threading.Event(), []
    translated = server.service._translated

    def slowly(text: str, options: Any) -> Any:
        running.append(text)
        assert gate.wait(30) and len(running) == 1
        answer = translated(text, options)
        running.clear()
        return answer

    monkeypatch.setattr(server.service, "_translated", slowly)
    done: list[tuple[int, int]] = []

    def request(number: int) -> None:
        status, answer, headers = ask(server, json.dumps({"text": f"one {number}"}))
        assert status in (200, 503)
        if status == 503:
            assert answer == {"error": "too many requests at once: try again in a second"}
            assert headers["Retry-After"] == "1"
        else:
            assert answer["source"] == ["one", str(number)]
        done.append((number, status))
        if len(done) == 7:
            gate.set()

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(request, range(10)))
    assert sorted(status for _, status in done) == [200] * 3 + [503] * 7


def test_an_unexpected_error_quotes_no_sentence(
    serving: Any, monkeypatch: Any, capsys: Any
) -> None:
    server = serving()

    def fail(text: str, options: Any) -> Any:
        raise RuntimeError(text)

    monkeypatch.setattr(server.service, "_translated", fail)
    status, answer, _ = ask(server)
    assert (status, answer) == (500, {"error": "the server failed at this request"})
    output = capsys.readouterr()
    assert "one two" not in output.err + output.out and "RuntimeError at tests" in output.err


def test_a_port_in_use_and_other_arguments(serving: Any, run: Path, capsys: Any) -> None:
    port = serving().server_port
    for given, message in (
        (["--port", port], f"--host 127.0.0.1 --port {port}: expected a place to listen at"),
        (["--host", "no such host"], "--host no such host --port 8000: expected a place"),
        (["--port", 65536], "expected an integer of at least 0 and at most 65535"),
        (["--beam", 0], "expected an integer of at least 1"),
    ):
        assert message in complaint(capsys, "serve", "--model", run, *given)
    assert "expected the run directory" in complaint(capsys, "serve", "--model", run.parent)
