"""Stores the messages of topics in the log, and reads them from any point, hot or cold."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frazil.topics.interface import PersistentStorage, Producer
    from frazil.topics.messages import Message, from_batch
    from frazil.topics.read.starts import EARLIEST, LATEST, Start
    from frazil.topics.subscriptions.options import Kind
    from frazil.topics.topic_service import Topics, open_topics

__all__ = [
    "EARLIEST",
    "LATEST",
    "Kind",
    "Message",
    "PersistentStorage",
    "Producer",
    "Start",
    "Topics",
    "from_batch",
    "open_topics",
]

_HOMES = {
    "EARLIEST": "read.starts",
    "LATEST": "read.starts",
    "Kind": "subscriptions.options",
    "Message": "messages",
    "PersistentStorage": "interface",
    "Producer": "interface",
    "Start": "read.starts",
    "Topics": "topic_service",
    "from_batch": "messages",
    "open_topics": "topic_service",
}


def __getattr__(name: str) -> Any:
    """Loads a name when it is first used, because other packages import single modules of this one and need little of
    it."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
