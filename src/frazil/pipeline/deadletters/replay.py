"""Replays dead letters: decodes them again, and appends the rows to the base table at their old offsets.

A row is appended by a commit that asserts the snapshot in which the row was looked for and not found. So of all that
try, at the same time or after a crash, one succeeds and the others find the row. The letter is marked afterwards. A
process that is killed in between finds the row the next time, and marks the letter then.

Only letters below the base table's offset can be replayed, because records above it are read from the log. Every
snapshot with the row has a higher offset. So however far a table is rolled back, a row that is moved again is not
duplicated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from frazil.clock import World
from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.errors import CasConflict, FrazilError, SchemaEvolution, TableNotFound, TopicNotFound
from frazil.failpoints import failpoint
from frazil.formats.topic_decoder import open_decoder
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.attempts import attempt_folder, new_attempt
from frazil.lake.commit.commit import send
from frazil.lake.commit.complete_offsets import complete_from
from frazil.lake.commit.offsets import (
    ATTEMPT,
    OFFSETS,
    TableState,
    check_not_rolled_back,
    offset_properties,
    offsets_to_json,
)
from frazil.lake.commit.proposals import propose
from frazil.lake.evolution import follow_dead_letters, follow_first
from frazil.lake.mapping.misfits import row_from_ipc
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import Role, base_identifier, dead_letter_identifier
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.topics.schemas import TopicSchemas
from frazil.pipeline.deadletters.decode_letters import DeadLetter, DecodedLetters, decode_letters
from frazil.pipeline.deadletters.letters import REPLAYED_AT, RecordLocation, mark_replayed, read_letters
from frazil.scan.table_files import read_rows
from frazil.store import ObjectStore

REPLAYED = "frazil.letters.replayed"
"""The key in a snapshot's summary for the number of its rows that were dead letters."""

LETTERS_PER_COMMIT = 5_000
"""This is how many letters one commit replays, and one commit marks. To mark letters, whole files are written
again."""
BYTES_PER_COMMIT = 64 * MIB
"""This is how many bytes of records one commit replays. Their rows need several times as much memory."""
_OFFSETS_PER_FILTER = 200
"""This is how many offsets one filter has. With more of them PyIceberg does not use the statistics of files."""
_TRIES = 10
_PAUSE_SECONDS = 0.1

T = TypeVar("T")


@dataclass
class ReplayResult:
    """Counts what became of the letters."""

    rows: int = 0
    """This is how many letters became rows of the base table."""
    found: int = 0
    """This is how many letters had a row in the base table already."""
    waiting: list[RecordLocation] = field(default_factory=list)
    """The letters above the offset of the base table, which has to get there first."""
    stuck: dict[RecordLocation, str] = field(default_factory=dict)
    """The letters that still cannot become rows, with the reasons."""


class Replay:
    """The replay of one topic's dead letters."""

    def __init__(
        self, config: Config, lake: Lake, store: ObjectStore, topic: str, world: World | None = None
    ) -> None:
        self._lake = lake
        self._store = store
        self._topic = topic
        self._base = base_identifier(config, topic)
        self._letters = dead_letter_identifier(config, topic)
        self._world = world or World()
        newest = TopicSchemas(store, topic).latest()
        if newest is None:
            raise TopicNotFound(f"Topic {topic!r} has no schema in {store.url}.")
        self._decoder = open_decoder(config, topic, newest.schema)

    def run(self, where: BooleanExpression | None = None) -> ReplayResult:
        """Replays all letters, or those that match. It may be killed, and several processes may run it at once."""
        letters = follow_dead_letters(self._lake, self._open(self._letters, "dead-letter"))
        done = ReplayResult()
        there: set[RecordLocation] = set()
        for some in _commit_batches(_read(letters, where)):
            there |= self._replay({letter.location: letter for letter in some}, done)
            if len(there) >= LETTERS_PER_COMMIT:
                self._mark(letters, there)
                there = set()
        self._mark(letters, there)
        return done

    def _mark(self, letters: Table, there: set[RecordLocation]) -> None:
        failpoint("replay.unmarked")
        mark_replayed(self._lake, letters, there, self._world.clock.now_ms(), self._world.rng)

    def _replay(self, letters: dict[RecordLocation, DeadLetter], done: ReplayResult) -> set[RecordLocation]:
        """Appends rows that the base table lacks, and returns the locations of all letters that have a row then."""
        stuck: dict[RecordLocation, str] = {}
        tried: set[RecordLocation] = set()
        for _ in range(_TRIES):
            base = self._open(self._base, "base")
            check_not_rolled_back(base)
            offsets = TableState.of(base).offsets
            below = {each for each in letters if each.offset < offsets.get(each.partition, 0)}
            there = find_rows(base, below)
            lost = _without_removed(base, (letters[each] for each in below - there - stuck.keys()))
            made = decode_letters(base.metadata, self._decoder, lost)
            stuck |= made.stuck
            if made.wanting:
                stuck |= self._follow(base, made)
                continue
            tried |= set(made.locations)
            if self._append(base, made):
                done.rows += len(tried & (there | set(made.locations)))
                done.found += len(there - tried)
                done.waiting += sorted(letters.keys() - below)
                done.stuck |= stuck
                return there | set(made.locations)
        raise CasConflict(f"Table {dotted(self._base)} is being changed by others all the time; try later.")

    def _follow(self, base: Table, made: DecodedLetters) -> dict[RecordLocation, str]:
        """Adds columns to the base table that the rows need.

        If that is impossible, returns the letters that need them, with the reason. Letters whose columns clash with
        those of others are tried again with the changed table.
        """
        try:
            follow_first(self._lake, base, *made.wanted)
        except SchemaEvolution as error:
            return dict.fromkeys(made.wanting, str(error))
        return {}

    def _append(self, base: Table, made: DecodedLetters) -> bool:
        """Appends the rows. Returns False if the commit failed, so that the table has to be read again."""
        if not made.locations:
            return True
        state = TableState.of(base)
        attempt = new_attempt(self._world.clock.now_ms(), self._world.rng)
        files = self._write(base, attempt, made)
        failpoint("replay.written")
        summary = {
            ATTEMPT: attempt,
            REPLAYED: str(len(made.locations)),
            OFFSETS: offsets_to_json(state.offsets),
        }
        try:
            send(self._lake, base, propose(base, files, summary, offset_properties(state.offsets)))
        except FrazilError as error:
            if not (error.retryable or isinstance(error, CasConflict)):
                raise
            # Somebody else was first, or the outcome is unknown and the table will show it. The files are left to
            # the removal of orphans.
            self._world.clock.sleep(_PAUSE_SECONDS)
            return False
        return True

    def _write(self, base: Table, attempt: str, made: DecodedLetters) -> list[DataFile]:
        folder = attempt_folder(base.metadata.location, attempt)
        with DataFileWriter(base.io, base.metadata, folder, 0) as writer:
            for batch in made.rows:
                writer.write(batch)
            return writer.close()

    def _open(self, identifier: Identifier, role: Role) -> Table:
        check = check_table(self._lake, self._store, self._topic, identifier, role)
        if check.status is TableStatus.NEVER_CREATED:
            raise TableNotFound(f"Topic {self._topic!r} has no {role} table {dotted(identifier)}.")
        if check.status is not TableStatus.OK or check.table is None:
            raise check.error()
        return check.table


def find_rows(base: Table, locations: Collection[RecordLocation]) -> set[RecordLocation]:
    """Returns which of these locations have a row in the table."""
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for location in sorted(locations):
        by_partition[location.partition].append(location.offset)
    return {
        RecordLocation(partition, offset)
        for partition, offsets in by_partition.items()
        for some in _batched(offsets, _OFFSETS_PER_FILTER)
        for offset in _found(base, parse(f"{PARTITION} == {partition} and {OFFSET} in ({', '.join(map(str, some))})"))
    }


def _found(base: Table, where: BooleanExpression) -> Iterator[int]:
    return (offset for batch in read_rows(base, (OFFSET,), where) for offset in batch.column(OFFSET).to_pylist())


def _read(letters: Table, where: BooleanExpression | None) -> Iterator[DeadLetter]:
    for batch in read_letters(letters, (PARTITION, OFFSET, "raw", REPLAYED_AT), where):
        for partition, offset, raw, replayed in zip(*batch.columns, strict=True):
            location = RecordLocation(partition.as_py(), offset.as_py())
            yield DeadLetter(location, row_from_ipc(raw.as_py()), marked=replayed.is_valid)


def _commit_batches(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Groups letters into those that are replayed by one commit."""
    some: list[DeadLetter] = []
    size = 0
    for letter in letters:
        if some and (len(some) == LETTERS_PER_COMMIT or size + letter.record.nbytes > BYTES_PER_COMMIT):
            yield some
            some, size = [], 0
        some.append(letter)
        size += letter.record.nbytes
    if some:
        yield some


def _without_removed(base: Table, missing: Iterable[DeadLetter]) -> list[DeadLetter]:
    """Returns the letters whose rows were never in the table, or were lost by a rollback.

    Letters that were replayed and whose rows retention has removed since are left out.
    """
    complete = complete_from(base)
    return [
        each
        for each in missing
        if not each.marked or each.location.offset >= complete.get(each.location.partition, 0)
    ]


def _batched(things: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(things)
    while some := list(islice(left, size)):
        yield some
