"""Keys in the object store, folders on the local disk, and which names topics may have."""

from __future__ import annotations

import re
from pathlib import Path

from frazil.errors import CallError

QUEUE = "queue/"
DELETED = "deleted/"
LONGEST_TOPIC = 249
_TOPIC = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{LONGEST_TOPIC - 1}}}")
_SEGMENT = re.compile(r"(\d{20})\.parquet")
_PARTITION = re.compile(r"\d{5}")


def check_topic(name: str) -> str:
    if not _TOPIC.fullmatch(name):
        raise CallError(
            f"{name!r} cannot be a topic: use 1 to {LONGEST_TOPIC} letters, digits, dots, underscores and dashes, "
            f"and begin with a letter, a digit or an underscore."
        )
    return name


def topic_prefix(topic: str) -> str:
    return f"{QUEUE}{topic}/"


def schema_prefix(topic: str) -> str:
    return f"{topic_prefix(topic)}schema/"


def schema_key(topic: str, version: int) -> str:
    return f"{schema_prefix(topic)}{version:010d}.json"


def partition_prefix(topic: str, partition: int) -> str:
    return f"{topic_prefix(topic)}{partition:05d}/"


def parse_partition(folder: str) -> int | None:
    """Return the partition that a folder's name stands for, if it does."""
    name = folder.rstrip("/").rpartition("/")[2]
    return int(name) if _PARTITION.fullmatch(name) else None


def segment_key(topic: str, partition: int, first_offset: int) -> str:
    return f"{partition_prefix(topic, partition)}{first_offset:020d}.parquet"


def parse_segment(key: str) -> int | None:
    """Return the first offset of the segment that a key names, if it names one."""
    match = _SEGMENT.fullmatch(key.rpartition("/")[2])
    return int(match[1]) if match else None


def low_prefix(topic: str, partition: int) -> str:
    return f"{partition_prefix(topic, partition)}low/"


def low_key(topic: str, partition: int, offset: int) -> str:
    return f"{low_prefix(topic, partition)}{offset:020d}"


def claim_key(topic: str, partition: int) -> str:
    return f"{partition_prefix(topic, partition)}writer.json"


def creation_prefix(topic: str) -> str:
    return f"{topic_prefix(topic)}topic/"


def creation_key(topic: str, generation: int) -> str:
    return f"{creation_prefix(topic)}{generation:010d}.json"


def growth_prefix(topic: str, generation: int) -> str:
    return f"{topic_prefix(topic)}grown/{generation:010d}/"


def growth_key(topic: str, generation: int, partitions: int) -> str:
    return f"{growth_prefix(topic, generation)}{partitions:010d}.json"


def deletion_prefix(topic: str) -> str:
    """Deletions have a folder of their own, so that one listing tells which topics are gone."""
    return f"{DELETED}{topic}/"


def deletion_key(topic: str, generation: int) -> str:
    return f"{deletion_prefix(topic)}{generation:010d}.json"


def kafka_prefix(topic: str) -> str:
    """The Kafka door stores here what was decided about the topic's positions."""
    return f"{topic_prefix(topic)}kafka/"


def wal_root(data_dir: Path) -> Path:
    return data_dir / "wal"


def wal_directory(data_dir: Path, topic: str, partition: int) -> Path:
    return wal_root(data_dir) / topic / f"{partition:05d}"
