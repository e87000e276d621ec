"""Runs a proxy before a real HTTP server that speaks TLS, and lets in only those who know the password."""

from __future__ import annotations

import base64
import ssl
import subprocess
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx

USER = "frazil"
PASSWORD = "frazil-secret"

_LEAF = (
    "subjectAltName=IP:127.0.0.1,DNS:localhost\nkeyUsage=critical,digitalSignature\nauthorityKeyIdentifier=keyid\n"
)
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class SecureProxy:
    """A TLS proxy whose certificate is valid for those who trust `authority`, a PEM file."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.authority = folder / "authority.pem"
        chain, key = certificate(folder, self.authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        self._server = _Server(endpoint, context)
        self.endpoint = f"https://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, target: str, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.context = context
        self.expected = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handshake in the request's own thread: a client that does not trust us must not hold up the others."""
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except OSError:
            return
        with secured:
            super().finish_request(secured, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.headers.get("Authorization") != self.server.expected:
            self._answer(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Basic realm="tests"'}, b"")
            return
        kept = {name: value for name, value in self.headers.items() if name.lower() in {"accept", "content-type"}}
        answer = httpx.request(
            self.command, f"{self.server.target}{self.path}", content=body, headers=kept, timeout=20
        )
        self._answer(answer.status_code, {"Content-Type": answer.headers.get("Content-Type", "")}, answer.content)

    do_GET = do_POST = do_PUT = do_DELETE = _relay

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because tests have no use for a line per request."""


def certificate(folder: Path, authority: Path) -> tuple[Path, Path]:
    """Returns a certificate for the loopback address, signed by an authority made for it, and its key."""
    authority_key, key, request, chain, extensions = (
        folder / name for name in ("authority.key", "server.key", "server.csr", "server.pem", "server.ext")
    )
    signing = ("-addext", "keyUsage=critical,keyCertSign", "-days", "2")
    _openssl("req", "-x509", *_KEY, *signing, "-subj", "/CN=tests", "-keyout", authority_key, "-out", authority)
    _openssl("req", *_KEY, "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", request)
    extensions.write_text(_LEAF)
    issuer = ("-CA", authority, "-CAkey", authority_key, "-CAcreateserial")
    _openssl("x509", "-req", "-in", request, *issuer, "-extfile", extensions, "-days", "2", "-out", chain)
    return chain, key


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
