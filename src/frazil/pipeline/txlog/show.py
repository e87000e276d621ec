"""Shows the transaction log to people. It reads beside a running pipeline, without its lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from frazil.disk.files import io_error
from frazil.errors import TransactionLogDamaged
from frazil.lake.commit.ranges import Range
from frazil.pipeline.txlog.entries import (
    Checkpoint,
    CommitEnd,
    CommitStart,
    Entry,
    FlushEnd,
    FlushStart,
    MaintenanceOp,
    OffsetMarker,
    as_data,
)
from frazil.pipeline.txlog.file import ScannedTxlog, files, slot_folder, slots


class SlotEntry(NamedTuple):
    slot: int
    entry: Entry


@dataclass
class History:
    entries: list[SlotEntry] = field(default_factory=list)
    """The entries in the order of their time."""
    damage: TransactionLogDamaged | None = None
    """The first damage that was found, if there is any: entries behind it are missing."""


def history(data_dir: Path, topic: str | None = None, last: int | None = None) -> History:
    """Return the entries of all slots: of one topic if `topic` is given, and only the newest `last` ones."""
    shown = History()
    for slot in slots(data_dir):
        kept: deque[SlotEntry] = deque(maxlen=last)
        try:
            for entry in _entries(slot_folder(data_dir, slot)):
                if topic is None or getattr(entry, "topic", None) == topic:
                    kept.append(SlotEntry(slot, entry))
        except TransactionLogDamaged as error:
            shown.damage = shown.damage or error
        except OSError as error:
            raise io_error(error, "Reading", slot_folder(data_dir, slot)) from error
        shown.entries += kept
    shown.entries.sort(key=lambda listed: (listed.entry.time_ms, listed.slot, listed.entry.number))
    if last is not None:
        shown.entries = shown.entries[-last:] if last else []
    return shown


def _entries(folder: Path) -> Iterator[Entry]:
    there = files(folder)
    for path in there:
        try:
            scanned = ScannedTxlog(path)
        except FileNotFoundError:
            # A checkpoint has just replaced the file.
            continue
        yield from scanned.entries
        # The pipeline may be writing the end of the newest file just now.
        if scanned.flaw and (path != there[-1] or scanned.clean_after_flaw):
            raise scanned.damaged(scanned.clean_bytes, scanned.flaw)


class EntryLine(NamedTuple):
    """An entry in words, as one line of a table."""

    what: str
    topic: str = ""
    table: str = ""
    offsets: str = ""
    files: int | None = None
    snapshot: int | None = None


def in_words(entry: Entry) -> EntryLine:
    match entry:
        case OffsetMarker():
            what = f"read {_records(entry.record_count)}"
            return EntryLine(what, entry.topic, offsets=f"{entry.partition}: up to {entry.offset}")
        case FlushStart():
            what = f"began to write {_records(entry.record_count)}, {entry.batch_size:,} bytes ({entry.attempt})"
            return EntryLine(what, entry.topic, entry.table, _offsets(entry.ranges))
        case FlushEnd():
            what = f"finished ({entry.attempt})"
            return EntryLine(what, entry.topic, entry.table, files=entry.files_created, snapshot=entry.snapshot_id)
        case CommitStart():
            parent = f" on top of {entry.parent_snapshot_id}"
            what = f"began to commit{parent} ({entry.attempt})"
            return EntryLine(what, entry.topic, entry.table, snapshot=entry.snapshot_id)
        case CommitEnd():
            outcome = "committed" if entry.success else "did not commit"
            reason = f": {entry.reason}" if entry.reason else ""
            again = "; tries again" if entry.retry else ""
            what = f"{outcome}{reason}{again} ({entry.attempt})"
            return EntryLine(what, entry.topic, entry.table, snapshot=entry.snapshot_id)
        case MaintenanceOp():
            details = ", ".join(f"{key} {value}" for key, value in entry.details.items())
            what = f"maintenance: {entry.op_type}{' (' + details + ')' if details else ''}"
            return EntryLine(what, entry.topic or "", entry.table)
        case Checkpoint():
            attempts = len(entry.state.get("attempts", ()))
            return EntryLine(f"checkpoint; {attempts or 'no'} unfinished attempt{'' if attempts == 1 else 's'}")
    raise TypeError(f"an entry that cannot be put in words: {entry!r}")


def to_data(listed: SlotEntry) -> dict[str, Any]:
    """Return an entry as plain data for programs."""
    data = as_data(listed.entry)
    if isinstance(listed.entry, FlushStart):
        data["ranges"] = [each._asdict() for each in listed.entry.ranges]
    return {"slot": listed.slot, "entry": type(listed.entry).__name__, **data}


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _offsets(ranges: tuple[Range, ...]) -> str:
    """Describe the ranges in one cell; of many, the first few."""
    shown = ", ".join(f"{each.partition}: {each.start}–{each.end}" for each in ranges[:4])
    return f"{shown}, and {len(ranges) - 4} more" if len(ranges) > 4 else shown
