"""Reasons of refusals over gRPC.

They are headers, of which a client takes 8 KiB: more it reports as RESOURCE_EXHAUSTED, and some send again for ever
what failed so.
"""

from __future__ import annotations

MOST_BYTES = 1500
"""Each may be three on the wire, and OTLP has the reason twice."""


def details(reason: str) -> str:
    """What can be sent of a reason: what a client sent may be in it, which may be long, or no Unicode."""
    text = reason.encode(errors="backslashreplace")
    if len(text) <= MOST_BYTES:
        return text.decode()
    return text[:MOST_BYTES].decode(errors="ignore") + "…"
