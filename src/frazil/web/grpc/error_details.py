"""Shortens the reasons of gRPC refusals.

They are sent as headers, of which a client accepts 8 KiB. It reports more as RESOURCE_EXHAUSTED, and some clients
retry that for ever.
"""

from __future__ import annotations

MOST_BYTES = 1500
"""The most bytes of a reason. Each may take three bytes on the wire, and OTLP has the reason twice."""


def details(reason: str) -> str:
    """Returns as much of a reason as can be sent. It may quote the client, and so be long or not be Unicode."""
    text = reason.encode(errors="backslashreplace")
    if len(text) <= MOST_BYTES:
        return text.decode()
    return text[:MOST_BYTES].decode(errors="ignore") + "…"
