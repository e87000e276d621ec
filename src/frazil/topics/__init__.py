"""Topics: messages are produced into the log and read from any point, hot or cold."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frazil.topics.interface import PersistentStorage, Producer
    from frazil.topics.messages import Message, from_batch
    from frazil.topics.opening import Topics, open_topics
    from frazil.topics.read.starts import EARLIEST, LATEST, Start
    from frazil.topics.subscriptions.options import Kind

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
    "Topics": "opening",
    "from_batch": "messages",
    "open_topics": "opening",
}


def __getattr__(name: str) -> Any:
    """Loaded when it is first used: modules of this package are used by others that need little of it."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
