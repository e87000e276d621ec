"""Finds topics by the names that people type."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from frazil.errors import TopicNotFound
from frazil.log.topics.schemas import list_topics
from frazil.store import ObjectStore

_LISTED = 10


def existing_topic(store: ObjectStore, name: str) -> str:
    known = list_topics(store)
    if name in known:
        return name
    raise TopicNotFound(f"Topic {name!r} does not exist.{hint(name, known)}")


def hint(name: str, known: Sequence[str]) -> str:
    """Return the names that may have been meant, as a sentence to add."""
    near = difflib.get_close_matches(name, known, n=3)
    if near:
        return f" Did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return " There are no topics yet."
    more = f" and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
    return f" There are: {', '.join(known[:_LISTED])}{more}."
