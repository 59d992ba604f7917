"""The HTTP server of `nmt serve`.

It limits requests in size and time and accepts only requests to its own names. The service limits
how many requests are answered at once; a silent or slow connection does not count among them.

Every error is sent as one line of JSON, {"error": "..."}. Neither sentences nor clients are logged:
of an unexpected error the server prints only the type and the place on stderr.
"""

from __future__ import annotations

import io
import ipaddress
import json
import re
import socket
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit

from backend.errors import UserError
from nmt.console.defects import place
from nmt.console.terminal import print
from nmt.serving.page import Page
from nmt.serving.service import Refusal, Service

BODY = 1 << 18  # bytes of a request's body
CONNECTIONS = 512  # read from or sent to at once; one more closes the oldest of them
BACKLOG = 128  # connections that the system holds until they are accepted
IDLE = 2.0  # seconds within which the head of a request must arrive
SECONDS = 10.0  # limit for receiving a body, and for sending an answer
DRAINED = 1.0  # seconds to keep reading after the answer
ROUTES = {"/": ("GET", "HEAD"), "/translate": ("POST",)}
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
           "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"}
JSON = "application/json"


class Server(ThreadingMixIn, HTTPServer):
    """A server that listens at a host and port (0: any free port), with a thread per connection.

    Raises UserError for a host or a port that is not available.
    """

    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(self, service: Service, page: Page, host: str, port: int) -> None:
        self.service, self.page, self.host = service, page, host
        # The direction to shut down of each connection. Until it is answered, only reading is shut
        # down, because its request may have arrived.
        self.connections: OrderedDict[socket.socket, int] = OrderedDict()  # oldest first
        try:
            self.address_family, *_, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            super().__init__(address[:2], Handler)  # type: ignore[arg-type]
        except (OSError, UnicodeError) as error:
            raise UserError(f"--host {host} --port {port}: expected a place to listen at, got: "
                            f"{getattr(error, 'strerror', None) or error}") from None

    def server_bind(self) -> None:
        """Bind without a DNS look-up of the host's name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, self.server_address[1]

    @property
    def url(self) -> str:
        """The URL of the page."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection; close the oldest if there are too many."""
        self.connections[request] = socket.SHUT_RD
        if len(self.connections) > CONNECTIONS:
            with suppress(OSError, KeyError):  # the oldest has just ended by itself
                oldest, end = self.connections.popitem(last=False)
                oldest.shutdown(end)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless the client closed the connection."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            complain(error)

    def knows(self, hosts: list[str]) -> bool:
        """Whether a request has one Host header, with a name of this server.

        Its names are every IP address, localhost, and the value of `--host`. Other names are
        refused, since a foreign page may let its own name resolve to this machine (DNS rebinding).
        """
        try:
            [name] = [urlsplit(f"//{host}").hostname or "" for host in hosts]
            if name in ("localhost", self.host.lower()):
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class Incoming(io.RawIOBase):
    """The bytes that a connection receives; reading raises TimeoutError after a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.allow(IDLE)

    def allow(self, seconds: float) -> None:
        """Set the deadline to this many seconds from now."""
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive some bytes."""
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """The handler of a connection, which serves one request."""

    server: Server
    server_version, sys_version = "nmt", ""
    timeout = SECONDS

    def setup(self) -> None:
        """Read with a deadline, so that a client cannot keep its place by sending a byte now and
        then."""
        super().setup()
        self.rfile.close()
        self._incoming = Incoming(self.connection)
        self.rfile = io.BufferedReader(self._incoming)

    def finish(self) -> None:
        """End the answer, then read what else the client sends for a moment.

        The system resets a connection that is closed with unread bytes, and the client may then
        never see the answer.
        """
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self._incoming.allow(DRAINED)
            while self.rfile.read1(BODY):
                pass
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def respond(self) -> None:
        """Answer a request of any method."""
        try:
            self._route()
        except Refusal as refusal:
            self._refuse(refusal.status, str(refusal), refusal.headers)
        except OSError:
            raise
        except Exception as error:
            complain(error)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the server failed at this request")

    do_GET = do_HEAD = do_POST = respond

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the base class as JSON."""
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._refuse(status, f"expected an HTTP request, got one that is no good: {status.phrase}")

    def _route(self) -> None:
        if not self.server.knows(self.headers.get_all("Host", [])):
            raise Refusal(HTTPStatus.BAD_REQUEST, "Host: expected a name of this server")
        path = self.path.partition("?")[0]
        if path not in ROUTES:
            raise Refusal(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(ROUTES)}")
        if self.command not in ROUTES[path]:
            allowed = ", ".join(ROUTES[path])
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path}: expected {allowed}",
                          Allow=allowed)
        if path == "/":
            page = self.server.page
            self._send(HTTPStatus.OK, page.html, "text/html; charset=utf-8",
                       {"Content-Security-Policy": page.policy})
        else:
            request = self._request()
            self.server.connections.pop(self.connection, None)  # now the client waits for us
            answer = self.server.service.answer(request)
            text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            self._send(HTTPStatus.OK, text.encode(), JSON, {})

    def _request(self) -> object:
        """The value of the body, which is JSON."""
        if self.headers.get_content_type() != JSON:
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: expected {JSON}")
        try:
            return json.loads(self._body())
        except (ValueError, RecursionError):
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body: expected JSON in UTF-8") from None

    def _body(self) -> bytes:
        """The bytes of the body."""
        length = self.headers.get("Content-Length", "")
        if not length or self.headers.get("Transfer-Encoding"):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Content-Length: expected one")
        if not re.fullmatch("[0-9]{1,18}", length):
            raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length: expected a number")
        if int(length) > BODY:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                          f"the body: expected at most {BODY} bytes")
        self._incoming.allow(SECONDS)
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, f"the body: expected it within {SECONDS:g} "
                          "seconds") from None
        if len(body) < int(length):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body: expected {length} bytes, got "
                          f"{len(body)}")
        return body

    def _refuse(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None
                ) -> None:
        """Send an error as one line."""
        self._send(status, json.dumps({"error": " ".join(message.split())}).encode() + b"\n", JSON,
                   headers or {})

    def _send(self, status: HTTPStatus, body: bytes, kind: str, headers: dict[str, str]) -> None:
        """Send an answer."""
        self.server.connections[self.connection] = socket.SHUT_RDWR
        self.connection.settimeout(SECONDS)
        self.request_version = "HTTP/1.0"  # so that headers are sent for every request
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS,
                            **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def complain(error: BaseException | None) -> None:
    """Print the type and the place of an error on stderr.

    Its message is not printed, because it may quote a sentence.
    """
    if isinstance(error, Exception):
        print(f"nmt: serve: unexpected {type(error).__name__} at {place(error)}", file=sys.stderr)
