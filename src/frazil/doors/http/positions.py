"""Parses and formats positions in a topic, as requests and answers write them.

A single number is an offset in every partition, and `0:15,1:20` gives one for each. Answers use this form for where
to continue, and the ids of events use it for the last message of each partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from frazil.doors.http.times import parse_time
from frazil.errors import RequestError
from frazil.topics.names import MOST_PARTITIONS
from frazil.topics.read.starts import EARLIEST, LATEST, Start

_EACH = re.compile(r"(\d{1,5}):(-1|\d{1,19})", re.ASCII)
_LARGEST = 2**63 - 2


def start_of(offset: str | None, time: str | None, event: str | None, otherwise: Start) -> Start:
    """Returns where a reader begins: after an event, else at an offset or a time."""
    if event:
        return Start.at({partition: last + 1 for partition, last in _parse(event, "Last-Event-ID", -1).items()})
    if offset is not None and time is not None:
        raise RequestError("Give offset or time, not both.")
    if time is not None:
        return Start.since(parse_time(time, "time"))
    match offset:
        case None:
            return otherwise
        case "earliest":
            return EARLIEST
        case "latest":
            return LATEST
    if re.fullmatch(r"\d{1,19}", offset, re.ASCII) and int(offset) <= _LARGEST:
        return Start.at(int(offset))
    return Start.at(_parse(offset, "offset", 0))


def _parse(text: str, name: str, least: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for part in text.split(","):
        match = _EACH.fullmatch(part.strip())
        if match is None or not least <= int(match[2]) <= _LARGEST or int(match[1]) in found:
            allowed = "" if least < 0 else "earliest, latest, a number, or "
            raise RequestError(f"{name} is {allowed}one for each partition like 0:15,1:20, not {text[:40]!r}.")
        found[int(match[1])] = int(match[2])
    if len(found) > MOST_PARTITIONS:
        raise RequestError(f"{name} names more partitions than a topic can have.")
    return found


def check_partitions(start: Start, partitions: int) -> None:
    """Refuses an offset of a partition that does not exist, because it would be ignored."""
    if isinstance(start.offset, Mapping):
        for partition in start.offset:
            if partition >= partitions:
                raise RequestError(f"There is no partition {partition}: the topic has {partitions}, from 0 on.")


def format_positions(positions: Iterable[tuple[int, int]]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in positions)
