"""Parses the options of the Spark data source `frazil`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from frazil.config.load import load_config
from frazil.errors import ConfigError
from frazil.scan.micro_batches import BatchLimits
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound
from frazil.scan.topic_rows import TopicRows
from frazil.scan.topic_snapshot import Read

KNOWN = (
    "topic",
    "config",
    "read",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
)
SEALED = "sealed"
_ONLY_STREAMS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
_ONLY_BATCHES = ("endingOffsets",)
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class SourceOptions:
    topic: str
    config: Path | None
    read: Read
    starts: Bound
    ends: Bound
    tail: bool
    """This says whether a batch includes records that are not sealed yet."""
    limits: BatchLimits

    @classmethod
    def parse(cls, given: Mapping[str, str], *, stream: bool = False) -> SourceOptions:
        """Parses the options that the user gave. As in Spark, the case of option names does not matter."""
        by_name = {name.lower(): value for name, value in given.items()}
        _check_names(by_name, stream)
        if not by_name.get("topic"):
            raise ConfigError("The frazil data source needs the option 'topic'.")
        read = by_name.get("read", "both").lower()
        if read not in get_args(Read):
            raise ConfigError(f"Option 'read': {read!r} is not allowed; allowed: {', '.join(get_args(Read))}.")
        starts = _bound("startingOffsets", by_name, EARLIEST)
        sealed = by_name.get("endingoffsets", "").strip().lower() == SEALED
        ends = Bound(LATEST) if sealed else _bound("endingOffsets", by_name, LATEST)
        if not stream:
            _check_batch(starts, ends)
        return cls(
            topic=by_name["topic"],
            config=Path(by_name["config"]) if by_name.get("config") else None,
            read=read,  # type: ignore[arg-type]  # checked above
            starts=starts,
            ends=ends,
            tail=not sealed,
            limits=BatchLimits(_number("maxOffsetsPerTrigger", by_name), _number("maxBytesPerTrigger", by_name)),
        )

    def open(self) -> TopicRows:
        return TopicRows(load_config(self.config).config, self.topic, self.read)


def rows_of(given: Mapping[str, str]) -> TopicRows:
    """Opens the topic that the options name. It is not known yet whether a batch or a stream will be read."""
    names = {name.lower() for name in ("topic", "config", "read")}
    unknown = {name: value for name, value in given.items() if name.lower() not in map(str.lower, KNOWN)}
    chosen = {name: value for name, value in given.items() if name.lower() in names}
    return SourceOptions.parse(chosen | unknown).open()


def _check_names(by_name: Mapping[str, str], stream: bool) -> None:
    known = {name.lower(): name for name in KNOWN}
    if unknown := sorted(by_name.keys() - known.keys()):
        raise ConfigError(f"Unknown option {unknown[0]!r} of the frazil data source; known: {', '.join(KNOWN)}.")
    misplaced, kind = (_ONLY_BATCHES, "spark.read") if stream else (_ONLY_STREAMS, "spark.readStream")
    for name in misplaced:
        if name.lower() in by_name:
            raise ConfigError(f"Option {name!r} is for {kind} only.")


def _check_batch(starts: Bound, ends: Bound) -> None:
    if LATEST in (starts.otherwise, *starts.given.values()):
        raise ConfigError("Option 'startingOffsets': latest is for spark.readStream only: a batch would be empty.")
    if EARLIEST in (ends.otherwise, *ends.given.values()):
        raise ConfigError(
            "Option 'endingOffsets': earliest would leave nothing to read; allowed: latest, or offsets."
        )


def _bound(name: str, by_name: Mapping[str, str], otherwise: int) -> Bound:
    text = by_name.get(name.lower(), "").strip()
    if not text:
        return Bound(otherwise)
    if text.lower() in _WORDS:
        return Bound(_WORDS[text.lower()])
    try:
        given = {int(partition): _offset(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        more = f", {SEALED}" if name == "endingOffsets" else ""
        raise ConfigError(
            f"Option {name!r}: {text!r} is not allowed; allowed: {', '.join(_WORDS)}{more}, or offsets by partition "
            f'like {{"0": 123, "1": -2}} (-2 is the earliest, -1 the latest).'
        ) from None
    return Bound(otherwise, given)


def _offset(value: object) -> int:
    """Parses an offset. It may also be a position as the progress of a stream shows it."""
    if isinstance(value, dict):
        value = value["offset"]
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value


def _number(name: str, by_name: Mapping[str, str]) -> int | None:
    text = by_name.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise ConfigError(f"Option {name!r}: {text!r} is not allowed; allowed: a whole number from 1 on.")
    return int(text)
