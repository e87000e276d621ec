"""Turns damaged Kafka records of every format into rows as the pipeline does, in a process that may die of it.

`python -m tests.fuzz.kafka_decoding SEED CASES FOLDER REGISTRY` prints what became of them as JSON.
"""

from __future__ import annotations

import json
import logging
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import Table

from frazil.errors import SchemaEvolution
from frazil.lake.catalog.lake import Lake
from frazil.lake.evolution import follow_first, must_change_for, set_on_mismatch
from frazil.lake.mapping.misfits import dead_letter_batch
from frazil.lake.schema.widening import widest
from frazil.log.schema.columns import OFFSET
from frazil.scan.decode import DecodedRecords, DecodingRules, RowDecoder
from tests.formats.avro.cases import as_python
from tests.fuzz.kafka_records import Record, Source, batch_of, sources
from tests.lake.support import make_base_table
from tests.servers.registry import RegistryServer

DAMAGED, GOOD = 50, 10
"""A batch has this many damaged and good records."""
ROUNDS = 25
"""A table takes this many batches, and gets columns of damaged records; then another takes its place."""
MOST_SECONDS = 60.0
"""A batch may take this long; usually it takes milliseconds."""
MOST_BYTES = 2 << 30
"""The process may use this much memory."""


class Failure(Exception):
    """Raised when something happened that must not; the text has the records that caused it."""


def main(seed: int, cases: int, folder: str, registry: str) -> None:
    # Misfits are logged, and here nearly every record is one.
    logging.disable()
    chance = random.Random(seed)
    server = RegistryServer(registry)
    tables = [_Topic(source, Path(folder)) for source in sources(chance, server, Path(folder))]
    counts: Counter[str] = Counter()
    while counts["cases"] < cases:
        chance.choice(tables).round(chance, counts)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if used > MOST_BYTES:
        raise Failure(f"{used:,} bytes of memory were used")
    counts["MiB"] = used >> 20
    print(json.dumps(counts))  # noqa: T201 - for the test


class _Topic:
    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._lake = Lake(source.config(folder))
        self._table: Table | None = None
        self._rounds = 0
        self._offset = 0
        source.fine = self._values_that_become_rows(source.pool)

    def _values_that_become_rows(self, values: Sequence[bytes]) -> list[bytes]:
        """Returns the values that become rows: a valid message may have a time that no table can hold."""
        batch = batch_of([Record(None, value) for value in values])
        table = make_base_table(self._lake, f"{self._source.name}_fine", self._source.decoder.survey(batch))
        made = RowDecoder(DecodingRules.of(table.metadata, self._source.decoder)).decode(batch, 0, 0)
        return [values[offset] for offset in made.batch.column(OFFSET).to_pylist()]

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """Moves some damaged records among good ones."""
        records = [self._source.damaged(chance) for _ in range(DAMAGED + GOOD)]
        good = sorted(chance.sample(range(len(records)), GOOD))
        for place in good:
            records[place] = self._source.good(chance)
        started = time.monotonic()
        try:
            self._move(records, good, counts)
        except Exception as error:
            raise Failure(f"{self._source.name}: {error!r} for {records}") from error
        if time.monotonic() - started > MOST_SECONDS:
            raise Failure(f"{self._source.name}: {time.monotonic() - started:g} seconds for {records}")

    def _move(self, records: Sequence[Record], good: Sequence[int], counts: Counter[str]) -> None:
        batch = batch_of(records)
        table = self._opened(batch, counts)
        made, table = self._made(table, batch, counts)
        made.batch.validate(full=True)
        offsets = made.batch.column(OFFSET).to_pylist()
        misfits = [] if made.misfits is None else made.misfits.rows[OFFSET].to_pylist()
        if sorted(offsets + misfits) != list(range(self._offset, self._offset + len(batch))):
            raise Failure(f"rows are {offsets}, dead letters {misfits}")
        if made.misfits is not None:
            letters = dead_letter_batch(made.misfits, self._source.name, 0, 1, 0)
            letters.validate(full=True)
            if not all(letters["error"].to_pylist()):
                raise Failure("a dead letter has no reason")
        self._check_good(table, made, batch, good)
        counts["cases"] += len(batch)
        counts[f"{self._source.name} rows"] += len(offsets)
        counts[f"{self._source.name} dead letters"] += len(misfits)
        self._table, self._offset = table, self._offset + len(batch)

    def _opened(self, batch: pa.RecordBatch, counts: Counter[str]) -> Table:
        """Returns the table, which began with good records: for formats without types the first records decide the
        types.
        """
        decoder = self._source.decoder
        if self._table is None or self._rounds % ROUNDS == 0:
            first = batch_of([Record(each, each) for each in self._source.fine])
            columns = widest([decoder.columns(), decoder.survey(first)])
            self._table = make_base_table(self._lake, f"{self._source.name}_{self._rounds}", columns)
            counts["tables"] += 1
        self._rounds += 1
        decoder.survey(batch)
        decoder.survey(batch, DecodingRules.of(self._table.metadata, decoder).known())
        return self._table

    def _made(self, table: Table, batch: pa.RecordBatch, counts: Counter[str]) -> tuple[DecodedRecords, Table]:
        """Returns the rows, and the table with the columns that they need, as far as it can have them.

        Other records are dead letters.
        """
        while True:
            maker = RowDecoder(
                DecodingRules.of(table.metadata, self._source.decoder), partial(must_change_for, table.metadata)
            )
            made = maker.decode(batch, 0, self._offset)
            if not made.wanted:
                return made, table
            before = table.metadata.current_schema_id
            try:
                table = follow_first(self._lake, table, *made.wanted)
                stopped = table.metadata.current_schema_id == before
            except SchemaEvolution:
                stopped = True
            if stopped:
                counts[f"{self._source.name} stopped"] += 1
                table = set_on_mismatch(self._lake, table, "dead-letter")

    def _check_good(self, table: Table, made: DecodedRecords, batch: pa.RecordBatch, places: Sequence[int]) -> None:
        """Checks that good records give the same rows as without damaged ones."""
        maker = RowDecoder(DecodingRules.of(table.metadata, self._source.decoder))
        offsets = pa.array([self._offset + place for place in places], pa.int64())
        alone = maker.decode_at(batch.take(pa.array(places)), 0, offsets)
        if alone.misfits is not None:
            raise Failure(f"a good record is a dead letter: {alone.misfits.rows['error'].to_pylist()}")
        found = made.batch.filter(pa.compute.is_in(made.batch.column(OFFSET), offsets))
        if repr(as_python(found.to_struct_array())) != repr(as_python(alone.batch.to_struct_array())):
            raise Failure(f"good records became {found.to_pylist()}, and alone {alone.batch.to_pylist()}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
