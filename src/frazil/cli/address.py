"""The address of a running Frazil, as people give it."""

from __future__ import annotations

from urllib.parse import urlsplit

from frazil.errors import ConfigError

_PATHS = ("/health", "/status", "/sql")


def address_of(url: str) -> str:
    """Without what comes after host and port."""
    url = (url if "://" in url else f"http://{url}").rstrip("/")
    for path in _PATHS:
        url = url.removesuffix(path)
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        raise ConfigError(f"{url!r} is not an address; --url looks like http://127.0.0.1:8080")
    return url
