"""Checks a partition: every frame, every segment, and that they join without a gap.

It may run beside a writer. What a writer is doing at the moment can look like damage, so the WAL is read again when
something is wrong with it, and only what stays wrong is reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from frazil.clock import World
from frazil.errors import FrazilError
from frazil.log import layout
from frazil.log.check.repair import DAMAGED, UNFINISHED
from frazil.log.check.salvage import chain_at
from frazil.log.check.survey import UNREADABLE, FileSurvey, WalSurvey, is_written, survey
from frazil.log.claims import owner
from frazil.log.schema.schema import evolve, from_text
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment, read_records
from frazil.log.wal.recovery import recover
from frazil.store import ObjectStore

LOOKS = 3
"""A WAL that seems damaged is read this often, because a running writer may be changing it."""


class Finding(NamedTuple):
    """A problem, or a note about something harmless."""

    kind: Literal["problem", "note"]
    where: str
    """The path of a file or the key of an object."""
    what: str
    byte: int | None = None


def problem(where: Path | str, what: str, byte: int | None = None) -> Finding:
    return Finding("problem", str(where), what, byte)


def note(where: Path | str, what: str) -> Finding:
    return Finding("note", str(where), what)


class TopicCheck:
    """The schemas of a topic, and the problems that were found with them."""

    def __init__(self, store: ObjectStore, topic: str) -> None:
        self.findings: list[Finding] = []
        self.schemas: dict[int, pa.Schema] = {}
        previous: pa.Schema | None = None
        for info in store.list(layout.schema_prefix(topic)):
            try:
                data = json.loads(bytes(store.get(info.key)))
                version, schema = int(data["version"]), from_text(data["schema"])
            except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
                self.findings.append(problem(info.key, f"the schema cannot be read: {error}"))
                continue
            self.schemas[version] = schema
            if info.key != layout.schema_key(topic, version):
                self.findings.append(problem(info.key, f"it holds version {version} of the schema"))
            elif previous is not None and not _follows(previous, schema, topic):
                self.findings.append(problem(info.key, "the schema does not follow from the version before"))
            previous = schema
        if gaps := set(range(1, max(self.schemas, default=0))) - set(self.schemas):
            self.findings.append(problem(layout.schema_prefix(topic), f"versions are missing: {sorted(gaps)}"))


def _follows(old: pa.Schema, new: pa.Schema, topic: str) -> bool:
    try:
        return bool(evolve(old, new, topic).equals(new))
    except FrazilError:
        return False


class PartitionCheck:
    def __init__(
        self,
        store: ObjectStore,
        topic: TopicCheck,
        name: str,
        partition: int,
        directory: Path,
        node: str | None,
        world: World,
        on_step: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        """`on_step` is called with what is read, the number of the step, and the number of steps."""
        self._store = store
        self._topic = topic
        self._name = name
        self._partition = partition
        self._directory = directory
        self._node = node
        self._world = world
        self._on_step = on_step
        self._index = SegmentIndex(store, name, partition)

    def run(self) -> Iterator[Finding]:
        wal = list(self._wal())
        yield from self._segments()
        yield from wal

    # --- segments ------------------------------------------------------------------------------------------

    def _segments(self) -> Iterator[Finding]:
        self._index.refresh()
        firsts = self._index.firsts
        ends: list[tuple[Segment, int]] = []
        for step, first in enumerate(firsts):
            key = layout.segment_key(self._name, self._partition, first)
            self._on_step(key, step, len(firsts))
            try:
                segment = self._index.footer(first)
                yield from self._segment(segment, key)
                ends.append((segment, first))
            except UNREADABLE as error:
                if not self._trimmed(first):
                    yield problem(key, str(error))
        for (segment, _), (_, following) in pairwise(ends):
            if following != segment.end and following == _next(firsts, segment.first):
                what = "overlaps" if following < segment.end else "leaves a gap before"
                key = layout.segment_key(self._name, self._partition, following)
                yield problem(segment.key, f"it ends at offset {segment.end}, which {what} {key}")

    def _segment(self, segment: Segment, key: str) -> Iterator[Finding]:
        if segment.key != key:
            yield problem(key, f"it says of itself that it is {segment.key}")
        table = read_records(self._store, segment)
        table.validate(full=True)
        schema = self._topic.schemas.get(segment.schema_version)
        if schema is None:
            yield problem(key, f"version {segment.schema_version} of the schema does not exist")
        elif not table.schema.remove_metadata().equals(schema):
            yield problem(key, f"its columns are not those of version {segment.schema_version} of the schema")

    def _trimmed(self, first: int) -> bool:
        self._index.refresh()
        return first < self._index.low

    # --- the WAL -------------------------------------------------------------------------------------------

    def _wal(self) -> list[Finding]:
        """Return the findings of every reading: a writer's work under way looks wrong in one reading only."""
        if not self._directory.is_dir():
            return []
        self._on_step(str(self._directory), 0, 1)
        findings = self._look()
        for _ in range(LOOKS - 1):
            if not any(found.kind == "problem" for found in findings):
                break
            again = self._look()
            findings = [found for found in again if found in findings]
        return findings

    def _look(self) -> list[Finding]:
        written = is_written(self._directory)
        wal = survey(self._directory, self._topic.schemas.get)
        index = SegmentIndex(self._store, self._name, self._partition)
        index.refresh()
        frames = list(self._frames(wal, written))
        if not written and any(found.kind == "problem" for found in frames) and self._cut_at_start(wal):
            cut = "was not synced before a reboot; the next start cuts it off and begins a new epoch"
            frames = [found._replace(kind="note", what=f"{found.what} ({cut})") for found in frames]
        return [*frames, *self._joints(wal, index, written), *self._missing(wal, index), *self._leftovers(written)]

    def _missing(self, wal: WalSurvey, index: SegmentIndex) -> Iterator[Finding]:
        if not wal.files and wal.acknowledged > index.sealed_end():
            yield problem(
                self._directory,
                f"there are no WAL files, but records up to {wal.acknowledged} were acknowledged and only those up "
                f"to {index.sealed_end()} are sealed",
            )

    def _frames(self, wal: WalSurvey, written: bool) -> Iterator[Finding]:
        for file in wal.files:
            newest = file is wal.files[-1]
            if file.path.name == UNFINISHED:
                yield problem(file.path, "a repair was cut off; run `frazil log repair` again")
                continue
            if file.newer:
                yield problem(file.path, file.newer)
            for damage in file.damages:
                yield problem(file.path, f"damaged up to byte {damage.end}: {damage.why}", damage.start)
            if file.torn and not newest:
                yield problem(file.path, f"damaged up to its end: {file.torn.why}", file.torn.start)
            elif file.torn and not written and (file.end or 0) >= wal.acknowledged:
                yield note(file.path, f"torn by a crash at byte {file.torn.start}; the next start cuts it off")
            yield from self._schemas_known(file)
        yield from _continuous(wal)
        end = wal.files[-1].end if wal.files else None
        if end is not None and end < wal.acknowledged:
            what = f"it ends at offset {end}, but records up to {wal.acknowledged} were acknowledged"
            yield problem(wal.files[-1].path, what)

    def _schemas_known(self, file: FileSurvey) -> Iterator[Finding]:
        for version in sorted({found.entry.schema_version for found in file.records}):
            if version not in self._topic.schemas:
                yield problem(file.path, f"version {version} of the schema does not exist in the store")

    def _joints(self, wal: WalSurvey, index: SegmentIndex, written: bool) -> Iterator[Finding]:
        """Every segment that ends inside the WAL must end where a frame does, with the same history."""
        claimed = owner(self._store, self._name, self._partition)
        if wal.records and claimed not in (None, self._node):
            yield problem(self._directory, f"it holds records, but the partition belongs to node {claimed}")
        segments = list(self._readable(index))
        if not wal.headers or not segments:
            return
        start = wal.headers[0].first_offset
        end = wal.files[-1].end or start
        sealed = segments[-1].end
        if sealed < start and segments[-1].first == index.firsts[-1]:
            yield problem(wal.files[0].path, f"it begins at offset {start}, but the segments end at {sealed}")
        if sealed > end and not written:
            yield problem(self._directory, f"it ends at offset {end}, but another writer has sealed up to {sealed}")
        for segment in segments:
            if start <= segment.end <= end and not wal.damages and chain_at(wal, segment.end) != segment.chain:
                what = f"it does not hold the records of {segment.key}, written by {segment.writer}"
                yield problem(self._directory, what)

    def _readable(self, index: SegmentIndex) -> Iterator[Segment]:
        """Yield the segments that can be read. The others are reported where segments are checked."""
        for first in index.firsts:
            with suppress(*UNREADABLE):
                yield index.footer(first)

    def _leftovers(self, written: bool) -> Iterator[Finding]:
        for path in sorted(self._directory.iterdir()):
            if path.name.startswith(DAMAGED):
                yield note(path, "set aside by a repair; delete it when nobody needs it any more")
            elif path.suffix == ".new" and not written:
                yield note(path, "left over from a crash; the next start removes it")

    def _cut_at_start(self, wal: WalSurvey) -> bool:
        """Tell whether recovery takes the damage for what a reboot does to unsynced files."""
        try:
            recover(self._directory, self._world.boot_id(), wal.acknowledged)
        except FrazilError:
            return False
        return True


def _continuous(wal: WalSurvey) -> Iterator[Finding]:
    """Check that each file goes on where the one before it ends, and that its frames follow each other."""
    expected: int | None = None
    for file in wal.files:
        header = file.header
        if header and expected is not None:
            if header.first_offset != expected:
                what = f"it begins at offset {header.first_offset}, but {expected} was to follow"
                yield problem(file.path, what, 0)
            elif not wal.damages and chain_at(wal, expected) != header.chain:
                yield problem(file.path, "it does not go on from the file before it, but from another history", 0)
        expected = header.first_offset if header else expected
        for found in file.records:
            if expected is not None and found.entry.offset != expected:
                what = f"offset {expected} was to follow, but {found.entry.offset} stands there"
                yield problem(file.path, what, found.frame.start)
            expected = found.entry.end


def _next(firsts: list[int], first: int) -> int | None:
    at = firsts.index(first) + 1
    return firsts[at] if at < len(firsts) else None
