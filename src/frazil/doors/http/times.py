"""Times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from frazil.errors import RequestError
from frazil.topics.message_limits import LAST_MS


def parse_time(text: str, name: str) -> int:
    """Milliseconds since 1970, of a number of them or of ISO 8601; without a zone it is UTC."""
    if re.fullmatch(r"\d{1,19}", text, re.ASCII) and int(text) <= LAST_MS:
        return int(text)
    try:
        # In a query a plus stands for a space, unless somebody took care of it.
        found = datetime.fromisoformat(re.sub(r" (?=\d\d:?\d\d$)", "+", text))
    except ValueError:
        raise RequestError(
            f"{name} is a time like 2026-11-16T12:00:00Z, or milliseconds since 1970, not {text[:40]!r}."
        ) from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)
