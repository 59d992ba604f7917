"""Clients that are silent, slow, rude or gone: other clients are answered, and a refused client can
read the reason."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tiny_run import start

from nmt.serving import server as module
from nmt.serving.server import BODY, Server

GOOD = json.dumps({"text": "one two"}).encode()
SOON = 5.0  # seconds within which a normal client is answered, on a busy machine
MANY = 40
Connect = Callable[..., socket.socket]


def post(body: bytes, length: int | None = None, kind: str = "application/json") -> bytes:
    """A request that states any Content-Length."""
    stated = len(body) if length is None else length
    return (f"POST /translate HTTP/1.0\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {stated}\r\n\r\n").encode() + body


def read(connection: socket.socket) -> tuple[int, Any]:
    """The status and JSON of a complete answer."""
    head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    return int(head.split()[1]), json.loads(body)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connects to a server and sends some bytes."""
    with ExitStack() as stack:
        def connected(server: Server, sent: bytes = b"") -> socket.socket:
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", server.server_port), 30))
            connection.sendall(sent)
            return connection

        yield connected


def answered(server: Server, connect: Connect) -> None:
    """Assert that a normal client is answered soon, if it asks again while others are answered."""
    started, status = time.monotonic(), 503
    while status == 503:
        status, answer = read(connect(server, post(GOOD)))
        assert time.monotonic() - started < SOON
    assert (status, answer["source"]) == (200, ["one", "two"])


def ended(connection: socket.socket, sending: bytes = b"") -> float:
    """The seconds until the server ends a connection on which a byte is sent now and then."""
    started = time.monotonic()
    connection.settimeout(0.05)
    with suppress(BrokenPipeError, ConnectionResetError):  # which are ends, too
        while time.monotonic() - started < 20:
            if sending:
                connection.sendall(sending)
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    break
    return time.monotonic() - started


SLOW = {"idle": b"", "head": b"POST /translate HTTP/1.0\r\nHost: loc", "body": post(b"{", 9),
        "deaf": post(GOOD)}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_slow_clients_hold_no_place(serving: Any, connect: Connect, sent: bytes) -> None:
    """Clients that are silent, stop within a head or a body, or never read their answer: although
    there are many more than the server has places, the next client is answered."""
    server = serving()
    slow = [connect(server, sent) for _ in range(MANY)]
    answered(server, connect)
    assert len(slow) == MANY


def test_the_oldest_ends(serving: Any, connect: Connect, monkeypatch: Any) -> None:
    """If there are more connections than a server may have, the oldest ends."""
    monkeypatch.setattr(module, "CONNECTIONS", 10)
    server = serving()
    idle = [connect(server) for _ in range(MANY)]
    answered(server, connect)
    assert ended(idle[0]) < module.IDLE / 2
    assert threading.active_count() < MANY


@contextmanager
def translating(server: Server, connect: Connect, monkeypatch: Any) -> Iterator[None]:
    """Context in which the server translates; the answer comes afterwards."""
    gate, started, translated = threading.Event(), threading.Event(), server.service._translated

    def slowly(*arguments: Any) -> Any:
        started.set()
        assert gate.wait(30)
        return translated(*arguments)

    monkeypatch.setattr(server.service, "_translated", slowly)
    first = connect(server, post(GOOD))
    assert started.wait(30)
    yield
    gate.set()
    assert read(first)[0] == 200


def test_a_translation_under_way_does_not_end(serving: Any, connect: Connect,
                                              monkeypatch: Any) -> None:
    """However many clients connect meanwhile."""
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    server = serving()
    with translating(server, connect, monkeypatch):
        silent = [connect(server) for _ in range(MANY)]
        assert max(map(ended, silent)) < 2 * module.IDLE  # the last two end by themselves


def test_slow_clients_end(serving: Any, connect: Connect, monkeypatch: Any) -> None:
    """Silent clients, and those that send a head byte by byte, end soon. Those that send a body
    byte by byte end later, with an error."""
    monkeypatch.setattr(module, "IDLE", 0.3)
    monkeypatch.setattr(module, "SECONDS", 1.0)
    monkeypatch.setattr(module, "DRAINED", 0.1)
    server = serving()
    assert ended(connect(server)) < SOON
    assert ended(connect(server, b"GET / HTTP/1.0\r\n"), b"a") < SOON
    started = time.monotonic()
    status, answer = read(connect(server, SLOW["body"]))
    assert (status, answer) == (408, {"error": "the body: expected it within 1 seconds"})
    assert 0.9 < time.monotonic() - started < 1 + SOON


@pytest.mark.parametrize("status, sent", [
    (200, post(GOOD) + b"x" * 2_000_000), (413, post(b"x" * (8 * BODY))),
    (415, post(b"x" * BODY, kind="text/plain")), (400, b"\0\r\n\r\n" + b"x" * 2_000_000)],
    ids=["longer than stated", "longer than the limit", "of another kind", "no request"])
def test_what_is_not_read_does_not_cost_the_answer(
    serving: Any, connect: Connect, status: int, sent: bytes
) -> None:
    """A connection closed with bytes unread would be reset."""
    server = serving()
    for _ in range(5):
        got, answer = read(connect(server, sent))
        assert got == status and ("error" in answer) == (status != 200)


def test_half_closed_clients(serving: Any, connect: Connect) -> None:
    server = serving()
    for sent, status in ((post(GOOD), 200), (post(b"{", 9), 400)):
        connection = connect(server, sent)
        connection.shutdown(socket.SHUT_WR)
        assert read(connection)[0] == status
    silent = connect(server)
    silent.shutdown(socket.SHUT_WR)
    assert ended(silent) < module.IDLE / 2


def test_refused_clients_can_read_the_reason(
    serving: Any, connect: Connect, monkeypatch: Any
) -> None:
    """Also if they have sent more than the server read."""
    server = serving(waiting=0)
    with translating(server, connect, monkeypatch):
        for _ in range(MANY):
            status, answer = read(connect(server, post(GOOD) + b"x" * 100_000))
            assert (status, answer) == (
                503, {"error": "too many requests at once: try again in a second"})


def test_cancelled_requests(serving: Any, connect: Connect, capsys: Any) -> None:
    """Clients that reset the connection; nothing is printed, and no place is lost."""
    server = serving()
    for sent in (b"", b"GET / HT", post(b"{", 9), post(GOOD)) * 10:
        connection = connect(server, sent)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    answered(server, connect)
    assert all(server.service._places.acquire(timeout=30) for _ in range(5))
    assert capsys.readouterr() == ("", "")


def test_signals_in_flight(run: Path) -> None:
    """Among connections of every kind; the exit statuses are other commands'."""
    for number, status, line in ((2, 130, "nmt: interrupted\n"), (15, 143, "nmt: terminated\n")):
        process = start("serve", "--model", run, "--port", 0, stdout=-1, stderr=-1, text=True)
        port = int(process.stdout.readline().split()[0].split(":")[2][:-1])  # type: ignore
        with ExitStack() as stack:
            for sent in (*SLOW.values(), *SLOW.values()):
                stack.enter_context(
                    socket.create_connection(("127.0.0.1", port), 30)).sendall(sent)
            process.send_signal(number)
            output = process.communicate(timeout=60)
        assert (process.returncode, output[1]) == (status, line)
