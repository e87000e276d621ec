"""Parses the query parameters and keys of HTTP requests."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from frazil.errors import RequestError

MAX_LIMIT = 10_000
_LARGEST = 2**63 - 1
_URL_SAFE = set(b"-_")
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def check_parameters(request: Request, *known: str) -> None:
    """Raises `RequestError` for unknown parameters, which would otherwise be ignored."""
    if unknown := sorted(set(request.query_params) - set(known)):
        raise RequestError(f"{unknown[0]!r} is not understood here; there are {', '.join(known)}.")


def number(text: str, name: str, *, least: int = 0, most: int = _LARGEST) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or not least <= int(text) <= most:
        raise RequestError(f"{name} is a number from {least} to {most}, not {text[:40]!r}.")
    return int(text)


def optional_number(request: Request, name: str) -> int | None:
    given = request.query_params.get(name)
    return None if given is None else number(given, name)


def limit_of(request: Request, otherwise: int) -> int:
    given = request.query_params.get("limit")
    return otherwise if given is None else number(given, "limit", least=1, most=MAX_LIMIT)


def flag(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "false")
    if given.lower() not in _WORDS:
        raise RequestError(f"{name} is true or false, not {given[:40]!r}.")
    return _WORDS[given.lower()]


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
