"""The one HTTP client of Frazil: the schema registry and a running Frazil are asked with it.

Every request is made as it stands: no proxy is asked, no redirect is followed, and answers come uncompressed, so that
few bytes never become many. The operating system's certificates are trusted, unless the caller says which ones are.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from frazil.version import __version__

if TYPE_CHECKING:
    # It takes a fifth of a second to import, and most commands and worker processes ask nobody.
    import httpx

_HEADERS = {"accept-encoding": "identity", "user-agent": f"frazil/{__version__}"}

for _name in ("httpx", "httpcore"):
    # The library logs every request; whoever asks knows better what is worth a line.
    logging.getLogger(_name).setLevel(logging.WARNING)


class RequestFailed(Exception):
    """Raised when there is no whole answer; the text says why. Callers turn it into an error with their own words."""


class Unreachable(RequestFailed):
    """Raised when no connection could be made, so the server knows nothing of the request."""


class AnswerLost(RequestFailed):
    """Raised when a connection failed, so nobody knows whether the server has done what was asked."""


class Answer:
    """An answer whose body is read on demand."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code

    def read(self, most_bytes: int | None = None) -> bytes:
        """The whole body. Raises `AnswerLost` when it is cut off, or longer than it may be."""
        body = bytearray()
        for chunk in self._chunks():
            body += chunk
            if most_bytes is not None and len(body) > most_bytes:
                raise AnswerLost(f"the answer is longer than {most_bytes:,} bytes")
        return bytes(body)

    def lines(self) -> Iterator[bytes]:
        """The lines of the body as they arrive, each with its end."""
        rest = b""
        for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest:
            yield rest

    def _chunks(self) -> Iterator[bytes]:
        chunks = self._response.iter_raw()
        while True:
            with _failures_translated():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


class HttpClient:
    """Keeps its connection for the next request until it is closed. It belongs to one thread."""

    def __init__(
        self,
        address: str,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`address` is what all paths begin with; the timeout holds for connecting and for each wait for bytes."""
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._headers = {**_HEADERS, **(headers or {})}
        self._tls = tls
        self._client: httpx.Client | None = None

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[Answer]:
        """Send a request, and yield the answer whatever its status is. Raises `Unreachable` or `AnswerLost`."""
        with _failures_translated():
            client = self._open()
            # The library encodes text as ASCII, but a person may have typed anything; the server refuses it then.
            encoded = {name.encode(): value.encode() for name, value in (headers or {}).items()}
            request = client.build_request(method, self._address + path, content=body, headers=encoded)
            response = client.send(request, stream=True)
        try:
            yield Answer(response)
        finally:
            response.close()

    def _open(self) -> httpx.Client:
        import httpx

        if self._client is None:
            secure = self._address.startswith("https:")
            self._client = httpx.Client(
                timeout=self._timeout_seconds,
                headers=self._headers,
                verify=(self._tls or ssl.create_default_context()) if secure else False,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client


@contextmanager
def _failures_translated() -> Iterator[None]:
    import httpx

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
        raise Unreachable(_reason(error)) from error
    except httpx.HTTPError as error:
        raise AnswerLost(_reason(error)) from error


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


def untrusted_certificate(error: RequestFailed) -> str | None:
    """Why the server's certificate is not trusted, if that is what went wrong."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        cause = cause.__cause__ or cause.__context__
    return None
