"""Parses the parameters and keys of HTTP requests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import Request

from frazil.errors import RequestError

MAX_LIMIT = 10_000
MAX_PARAMETERS = 5000
FORM = "application/x-www-form-urlencoded"
_LARGEST = 2**63 - 1
_URL_SAFE = set(b"-_")
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def number(text: str, name: str, *, least: int = 0, most: int = _LARGEST) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or not least <= int(text) <= most:
        raise RequestError(f"{name} is a number from {least} to {most}, not {text[:40]!r}.")
    return int(text)


class Parameters:
    """Holds the parameters of a request, from its query string and from a form in its body."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    @classmethod
    def parse(cls, query: str, body: bytes = b"", content_type: str | None = None) -> Parameters:
        """Returns what the query string says, and before it what the body says, if it is a form."""
        pairs = _pairs(query)
        if content_type is not None and content_type.partition(";")[0].strip().lower() == FORM:
            pairs = _pairs(body.decode("latin-1")) + pairs
        return cls(pairs)

    @classmethod
    def of(cls, request: Request) -> Parameters:
        return cls(request.query_params.multi_items())

    def check(self, *known: str) -> None:
        """Raises `RequestError` for unknown parameters, which would otherwise be ignored."""
        if unknown := sorted(self._values.keys() - set(known)):
            raise RequestError(f"{unknown[0]!r} is not understood here; there are {', '.join(known)}.")

    def one(self, name: str) -> str | None:
        """Returns the first value of a parameter."""
        return self.all(name)[0] if name in self._values else None

    def all(self, name: str) -> Sequence[str]:
        """Returns all values of a parameter that may come several times, as `match[]`."""
        return self._values.get(name, ())

    def number(self, name: str, *, least: int = 0, most: int = _LARGEST) -> int | None:
        given = self.one(name)
        return None if given is None else number(given, name, least=least, most=most)

    def flag(self, name: str, *, otherwise: bool = False) -> bool:
        given = self.one(name)
        if given is None:
            return otherwise
        if given.lower() not in _WORDS:
            raise RequestError(f"{name} is true or false, not {given[:40]!r}.")
        return _WORDS[given.lower()]


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError as error:
        raise RequestError("The parameters are not UTF-8.") from error
    except ValueError as error:
        raise RequestError(f"There are more than {MAX_PARAMETERS:,} parameters.") from error


def check_parameters(request: Request, *known: str) -> None:
    Parameters.of(request).check(*known)


def optional_number(request: Request, name: str) -> int | None:
    return Parameters.of(request).number(name)


def limit_of(request: Request, otherwise: int) -> int:
    given = Parameters.of(request).number("limit", least=1, most=MAX_LIMIT)
    return otherwise if given is None else given


def flag(request: Request, name: str) -> bool:
    return Parameters.of(request).flag(name)


def key_of(request: Request) -> bytes:
    """Returns the key in the last part of the path, whatever it contains: text in UTF-8, percent-encoded bytes, or
    hex or base64 if the parameter `encoding` says so."""
    raw: bytes = request.scope["raw_path"].partition(b"?")[0]
    text = unquote_to_bytes(raw.split(b"/", 4)[4])
    encoding = request.query_params.get("encoding")
    try:
        if encoding is None:
            return text
        if encoding == "hex":
            return binascii.unhexlify(text)
        if encoding == "base64":
            plain = text.rstrip(b"=")
            return base64.b64decode(plain + b"=" * (-len(plain) % 4), b"-_" if _URL_SAFE & set(plain) else None, True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"The key is not {encoding}: {error}.") from error
    raise RequestError(f"encoding is base64 or hex, not {encoding[:40]!r}.")
