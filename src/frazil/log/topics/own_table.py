"""Checks that no two topics share a table: records of the second one could never be moved."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.config.model import Config
from frazil.config.sections.topics import TELEMETRY_TOPICS
from frazil.errors import TableTaken
from frazil.log.topics.schemas import list_topics
from frazil.store import ObjectStore


def check_own_table(config: Config, store: ObjectStore, topic: str) -> None:
    """Raise `TableTaken` when a new topic would have a table of another one.

    Existing topics count, and those that the settings name: nobody else is to take their tables first.
    """
    named = {*config.topics, *config.kafka.topics, *filter(config.is_telemetry, TELEMETRY_TOPICS)}
    others = {*list_topics(store), *(() if topic in named else named)}
    wanted = config.tables(topic)
    for other in sorted(others - {topic}):
        if both := wanted & config.tables(other):
            raise TableTaken(_refusal(topic, other, both))


def _refusal(topic: str, other: str, tables: Iterable[str]) -> str:
    return (
        f"Topic {topic!r} cannot be: {min(tables)} would be a table of it, and is one of topic {other!r}. Take "
        f"another name, or give it another table in topics.{topic}.table.name."
    )
