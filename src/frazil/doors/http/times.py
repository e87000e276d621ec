"""Parses times that people write."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from frazil.errors import RequestError
from frazil.topics.message_limits import LAST_MS


def parse_time(text: str, name: str) -> int:
    """Returns milliseconds since 1970. The text is such a number or ISO 8601; without a zone it is UTC."""
    if re.fullmatch(r"\d{1,19}", text, re.ASCII) and int(text) <= LAST_MS:
        return int(text)
    try:
        # In a query string a plus means a space unless the client escaped it.
        found = datetime.fromisoformat(re.sub(r" (?=\d\d:?\d\d$)", "+", text))
    except ValueError:
        raise RequestError(
            f"{name} is a time like 2026-11-16T12:00:00Z, or milliseconds since 1970, not {text[:40]!r}."
        ) from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)
