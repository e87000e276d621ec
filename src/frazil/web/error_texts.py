"""Writes the error texts that clients see, without the server's folders, addresses and credentials.

An error about the request itself is shown as it is. For all others a client gets a sentence with a reference, and the
server's log has the whole error under the same reference.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict

from frazil.errors import FrazilError

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0
"""The same text is logged once in this time, under one reference, so that clients that retry do not fill the log."""
_REMEMBERED = 1000

_known: OrderedDict[str, tuple[str, float]] = OrderedDict()
_lock = threading.Lock()

_SENTENCES = {
    "config": "The server is not set up for this",
    "log": "The log of this topic cannot be used now",
    "storage": "The storage of the server does not work now",
    "iceberg": "The table or the catalog cannot be used now",
    "kafka": "The source of this topic cannot be used now",
    "registry": "The schema registry cannot be used now",
}


def text_for_client(error: object) -> str:
    """Returns the text for a client; what it leaves out is logged."""
    if not isinstance(error, BaseException):
        return str(error)
    public = error.for_clients() if isinstance(error, FrazilError) else None
    if public is not None:
        return public
    kind = error.kind if isinstance(error, FrazilError) else ""
    sentence = _SENTENCES.get(kind, "The server failed")
    return f"{sentence}. Its log says why, under the reference {_reference(error)}."


def _reference(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    now = time.monotonic()
    with _lock:
        known = _known.get(text)
        if known is not None and now - known[1] < _AGAIN_SECONDS:
            return known[0]
        reference = secrets.token_hex(4)
        _known[text] = reference, now
        while len(_known) > _REMEMBERED:
            _known.popitem(last=False)
    unexpected = None if isinstance(error, FrazilError) else error
    logger.error("a request failed", extra={"reference": reference, "reason": text}, exc_info=unexpected)
    return reference
