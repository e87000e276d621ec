"""Puts segments into the store: one at a time, and the same bytes again until the outcome is known.

A segment is named after its first offset only, so two writers collide instead of forking the log.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from frazil.clock import World
from frazil.errors import ObjectExists
from frazil.log.epochs import Epochs
from frazil.log.positions import Feeders, StoredPositions
from frazil.log.raw.rows import batches_of
from frazil.log.raw.segments import RawEncoding
from frazil.log.schema.schema import conform
from frazil.log.segments import segment as segments
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment
from frazil.log.tail import Tail
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.wal.entries import Entry
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.starting import Start
from frazil.store import ObjectStore


class Draft(NamedTuple):
    """A segment that is being put, or about to be, and whose outcome is not known yet."""

    segment: Segment
    data: pa.Buffer
    entries: list[Entry]
    feeders: Feeders
    """The positions of sources and producers as of its end."""


class Fenced(Exception):
    """Raised when the segment's name belongs to another writer. The text says how that was found out."""


class Sealing:
    """Makes and puts the segments of one partition. It is called by one thread at a time."""

    def __init__(
        self,
        topic: str,
        partition: int,
        store: ObjectStore,
        index: SegmentIndex,
        start: Start,
        schemas: TopicSchemas,
        options: WriterOptions,
        world: World,
    ) -> None:
        self.draft: Draft | None = None
        self._topic = topic
        self._partition = partition
        self._store = store
        self._index = index
        self._schemas = schemas
        self._options = options
        self._world = world
        self._feeders = start.sealed_positions.feeders

    def prepare(self, entries: list[Entry], requests: bytes, writer: str, epochs: Epochs) -> Draft:
        """Make a segment of these entries. `requests` are the known request hashes as of the last entry."""
        version = max(entry.schema_version for entry in entries)
        schema = self._schemas.get(version)
        feeders = self._advanced(entries)
        segment = Segment(
            topic=self._topic,
            partition=self._partition,
            first=entries[0].offset,
            end=entries[-1].end,
            writer=writer,
            epochs=epochs,
            chain=entries[-1].chain,
            schema_version=version,
            created_ms=self._world.clock.now_ms(),
            oldest_ms=entries[0].time_ms,
            positions=StoredPositions(feeders.to_json(), requests).to_json(),
            raw_encoding=_raw_encoding(entries, schema),
        )
        return Draft(segment, self._encode(segment, entries, schema), entries, feeders)

    def _encode(self, segment: Segment, entries: list[Entry], schema: pa.Schema) -> pa.Buffer:
        level = self._options.compression_level
        if segment.raw_encoding:
            return segments.encode_raw(segment, entries, level)
        batches = [conform(batch, schema) for batch in batches_of(entries)]
        return segments.encode(segment, batches, schema, level, self._options.encoding)

    def _advanced(self, entries: list[Entry]) -> Feeders:
        feeders = self._feeders.copy()
        for entry in entries:
            feeders.apply(entry.appends, entry.time_ms)
        return feeders

    def put(self, draft: Draft, tail: Tail) -> Segment:
        """Put the draft. Return the segment that is there now, which may be one of ours from before a crash."""
        try:
            self._store.put_new(draft.segment.key, draft.data)
            segment = draft.segment
        except ObjectExists:
            segment = segments.read_footer(self._store, draft.segment.key)
            self._check_ours(segment, draft, tail)
        self._index.refresh()
        if self._index.low > segment.first:
            raise Fenced(
                f"offset {segment.first} was trimmed while this writer slept; the log goes on from {self._index.low}"
            )
        if segment.end == draft.segment.end:
            self._feeders = draft.feeders
        else:
            # A crash may have left a segment of ours with another end than this draft's: that end counts.
            self._feeders = self._advanced([entry for entry in tail.view().entries if entry.end <= segment.end])
        self.draft = None
        return segment

    def _check_ours(self, segment: Segment, draft: Draft, tail: Tail) -> None:
        ours = segment.writer in tail.writers
        if self._options.ack == "object":
            ours = ours and segment.end == draft.segment.end
        else:
            ours = ours and tail.chain_at(segment.end) == segment.chain
        if not ours:
            raise Fenced(
                f"writer {segment.writer} put offsets {segment.first} to {segment.end} before this one "
                f"({draft.segment.writer}) could"
            )

    def restart(self, start: Start) -> None:
        self.draft = None
        self._feeders = start.sealed_positions.feeders


def _raw_encoding(entries: list[Entry], schema: pa.Schema) -> RawEncoding | None:
    """Return how a raw segment of these entries is decoded; None if it must hold rows, because some entries do."""
    forms = {entry.form for entry in entries}
    if "" in forms or len(forms) > 1 or any(entry.schema_version != entries[0].schema_version for entry in entries):
        return None
    return RawEncoding(forms.pop(), schema)
