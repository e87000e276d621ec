"""The HTTP client against a plain server: whole answers, lines as they come, and every way to get none."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from frazil.ops.http_client import AnswerLost, HttpClient, Unreachable


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str, dict[str, str], int]]] = []

    def do_GET(self) -> None:
        # A connection is known by the port of whoever asks.
        self.seen.append((self.command, self.path, dict(self.headers), self.client_address[1]))
        match self.path.partition("?")[0]:
            case "/base/elsewhere":
                self.send_response(302)
                self.send_header("location", "/base/whole")
                self.send_header("content-length", "0")
                self.end_headers()
            case "/base/cut":
                self.send_response(200)
                self.send_header("content-length", "100")
                self.end_headers()
                self.wfile.write(b"only this")
                self.close_connection = True
            case "/base/lines":
                self.send_response(200)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for chunk in (b"one\ntw", b"o\r\n\nfour \xe2\x80\xa8 still", b" four"):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.write(b"0\r\n\r\n")
            case "/base/silent":
                self.close_connection = True
            case _:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(418)
                self.send_header("content-length", str(len(body) or 5))
                self.end_headers()
                self.wfile.write(body or b"whole")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    Handler.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/base"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def address() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[HttpClient]:
    with closing(HttpClient(address, 30.0, {"x-own": "always"})) as client:
        yield client


def test_any_answer_is_an_answer(client: HttpClient) -> None:
    with client.ask("POST", "/a%2Fb?c=%20d", b"body", {"x-more": "önce"}) as answer:
        assert (answer.status, answer.read()) == (418, b"body")
    ((method, path, headers, _),) = Handler.seen
    assert (method, path) == ("POST", "/base/a%2Fb?c=%20d")
    assert (headers["x-own"], headers["accept-encoding"]) == ("always", "identity")
    assert headers["x-more"].encode("latin-1").decode() == "önce"


def test_a_connection_is_kept_until_it_is_closed(client: HttpClient) -> None:
    for _ in range(2):
        with client.ask("GET", "/whole") as answer:
            answer.read()
    client.close()
    with client.ask("GET", "/whole") as answer:
        assert answer.read() == b"whole"
    first, second, third = (port for *_, port in Handler.seen)
    assert first == second != third


def test_redirects_are_not_followed(client: HttpClient) -> None:
    with client.ask("GET", "/elsewhere") as answer:
        assert answer.status == 302
    assert len(Handler.seen) == 1


def test_no_proxy_is_asked(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with client.ask("GET", "/whole") as answer:
        assert answer.read() == b"whole"


def test_lines_end_where_the_server_ends_them(client: HttpClient) -> None:
    with client.ask("GET", "/lines") as answer:
        assert list(answer.lines()) == [b"one\n", b"two\r\n", b"\n", "four \u2028 still four".encode()]


def test_an_answer_that_is_cut_off_or_too_long_is_lost(client: HttpClient) -> None:
    with client.ask("GET", "/cut") as answer, pytest.raises(AnswerLost, match="complete message body"):
        answer.read()
    with client.ask("GET", "/whole") as answer, pytest.raises(AnswerLost, match="longer than 4 bytes"):
        answer.read(4)
    with pytest.raises(AnswerLost, match="without sending a response"), client.ask("GET", "/silent"):
        pytest.fail("nobody answered")


def test_a_server_that_is_slow_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            closing(HttpClient(address, 0.2)) as client,
            pytest.raises(AnswerLost, match="timed out"),
            client.ask("GET", "/"),
        ):
            pytest.fail("nobody answered")


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://exa mple", "https://127.0.0.1:1"])
def test_nobody_is_there(address: str) -> None:
    with closing(HttpClient(address, 5.0)) as client, pytest.raises(Unreachable), client.ask("GET", "/"):
        pytest.fail("nobody answered")


def test_requests_are_not_logged(client: HttpClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), client.ask("GET", "/whole") as answer:
        answer.read()
    assert not caplog.records
