"""Opens the log for commands that only read, and resolves names of topics and partitions (`orders`, `orders/0`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from frazil.errors import ConfigError, TopicNotFound

if TYPE_CHECKING:
    from frazil.config.model import Config
    from frazil.log.log import Log


@contextmanager
def open_log(config: Config) -> Iterator[Log]:
    """Opens the log for commands that only read. Closing it seals nothing."""
    from frazil.log.log import Log

    log = Log(config)
    try:
        yield log
    finally:
        log.close(seal=False)


def require_topic(log: Log, name: str) -> str:
    known = log.topics()
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(known[:10])}." if known else ""
    raise TopicNotFound(f"Topic {name!r} does not exist in {log.store.url}.{hint}")


def chosen_partitions(log: Log, name: str | None) -> list[tuple[str, int]]:
    """Returns the partitions that a command is about: all, those of a topic, or one."""
    if name is None:
        return [(topic, partition) for topic in log.topics() for partition in log.partitions(topic)]
    topic, partition = split_name(name)
    require_topic(log, topic)
    known = log.partitions(topic)
    if partition is None:
        return [(topic, each) for each in known]
    if partition not in known:
        there = ", ".join(map(str, known)) or "none"
        raise TopicNotFound(f"{topic} has no partition {partition}; there are: {there}.")
    return [(topic, partition)]


def split_name(name: str) -> tuple[str, int | None]:
    topic, slash, number = name.partition("/")
    if slash and not (number.isascii() and number.isdigit()):
        raise ConfigError(f"{name!r}: write TOPIC or TOPIC/PARTITION, the partition as a number.")
    return topic, int(number) if slash else None
