"""Parses names of topics: `/namespace/name` as Danube's clients write them, `namespace.name`, or a plain name.

A topic's table has the same name: `namespace.name`. A plain name belongs to the lake's own namespace (`frazil`,
unless the settings say otherwise), so `orders` and `/frazil/orders` are one topic with one table, `frazil.orders`.

Danube gives each partition of a topic a name of its own, `/namespace/name-part-2`; here that is partition 2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.errors import InvalidTopic
from frazil.log import layout

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_PARTITION = re.compile(r"(.+)-part-(0|[1-9][0-9]{0,4})")
MOST_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class TopicName:
    topic: str
    """This is the name in the log."""
    namespace: str
    name: str
    partition: int | None = None
    """It is set if the name is that of one partition."""

    @property
    def path(self) -> str:
        """Returns the name that Danube's clients use, without a partition."""
        return f"/{self.namespace}/{self.name}"

    def part(self, partition: int) -> str:
        """Returns the name that Danube's clients use for a partition."""
        return f"{self.path}-part-{partition}"


def parse_name(text: str, home: str = "frazil") -> TopicName:
    """Parses any of the forms. `home` is the lake's own namespace. Raises `InvalidTopic`, which says what is
    wrong."""
    if not text:
        raise InvalidTopic("A topic needs a name: /namespace/name, namespace.name or a plain name.")
    namespace, name = _split(text, home)
    partition: int | None = None
    if match := _PARTITION.fullmatch(name):
        name, partition = match[1], int(match[2])
        if _PARTITION.fullmatch(name):
            raise InvalidTopic(
                f"{text!r} cannot be a topic: {name!r} is a partition already. Names that end with -part-N mean "
                f"partitions, which have none of their own."
            )
        if partition >= MOST_PARTITIONS:
            raise InvalidTopic(f"{text!r} names partition {partition}; a topic has at most {MOST_PARTITIONS:,}.")
    for each, what in ((namespace, "namespace"), (name, "name")):
        if not _PART.fullmatch(each) and not (each == namespace == home):
            raise InvalidTopic(
                f"{text!r} cannot be a topic: its {what} is {each!r}. Use letters, digits, underscores and dashes, "
                f"and do not begin with a dash; write /namespace/name, namespace.name or a plain name."
            )
    topic = name if namespace == home else f"{namespace}.{name}"
    if len(topic) > layout.LONGEST_TOPIC:
        raise InvalidTopic(
            f"{text[:40]!r}… cannot be a topic: it has {len(topic)} characters, of at most {layout.LONGEST_TOPIC}."
        )
    return TopicName(topic, namespace, name, partition)


def _split(text: str, home: str) -> tuple[str, str]:
    if text.startswith("/"):
        parts = text[1:].split("/")
        if len(parts) != 2:
            raise InvalidTopic(f"{text!r} cannot be a topic: write /namespace/name, with two names and two slashes.")
        return parts[0], parts[1]
    if "/" in text:
        raise InvalidTopic(f"{text!r} cannot be a topic: with slashes it is /namespace/name, and begins with one.")
    namespace, dot, name = text.rpartition(".")
    if dot and "." in namespace and namespace != home:
        raise InvalidTopic(f"{text!r} cannot be a topic of messages: it has more than one dot. Write namespace.name.")
    return (namespace, name) if dot else (home, text)
