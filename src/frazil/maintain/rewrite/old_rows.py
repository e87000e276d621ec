"""Leaves rows out of rewritten files that are past the retention of their table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from frazil.lake.schema.arrow import column_getter
from frazil.log.schema.columns import OFFSET, PARTITION


@dataclass(frozen=True)
class OldRows:
    """Rows to leave out. They meet all of the conditions that are set."""

    time_field: int | None = None
    before: int = 0
    """The time of the rows is below this, in Iceberg's number for the column. Rows without a time stay."""
    below: Mapping[int, int] | None = None
    """The offsets of the rows are below these, by partition."""
    from_elsewhere: bool = False
    """Whether rows without a partition, which did not come from the log, are below `below`, too."""

    def finder(self, schema: Schema) -> OldRowFinder:
        return OldRowFinder(self, schema)


class OldRowFinder:
    """Finds old rows among those of a table with this schema."""

    def __init__(self, old: OldRows, schema: Schema) -> None:
        self._old = old
        self._time = None if old.time_field is None else column_getter(schema, old.time_field)

    def leave_out(self, batch: pa.RecordBatch, lost: dict[int, int]) -> pa.RecordBatch:
        """Returns the rows that stay. `lost` gets the highest offset of the others, by partition."""
        old = self._found(batch)
        if not pc.any(old).as_py():
            return batch
        names = batch.schema.names
        if PARTITION in names and OFFSET in names:
            gone = pa.table({name: batch.column(name) for name in (PARTITION, OFFSET)}).filter(old).drop_null()
            for row in gone.group_by(PARTITION).aggregate([(OFFSET, "max")]).to_pylist():
                highest = row[f"{OFFSET}_max"]
                lost[row[PARTITION]] = max(highest, lost.get(row[PARTITION], highest))
        return batch.filter(pc.invert(old))

    def _found(self, batch: pa.RecordBatch) -> pa.Array:
        found = pa.repeat(pa.scalar(True), len(batch))
        if self._time is not None:
            times = self._time(batch)
            integers = times.view(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
            found = pc.and_(found, pc.less(integers, self._old.before).fill_null(False))
        if self._old.below is not None:
            found = pc.and_(found, self._passed(batch, self._old.below))
        return found

    def _passed(self, batch: pa.RecordBatch, below: Mapping[int, int]) -> pa.Array:
        partitions, offsets = batch.column(PARTITION), batch.column(OFFSET)
        passed = partitions.is_null() if self._old.from_elsewhere else pa.repeat(pa.scalar(False), len(batch))
        for partition, offset in below.items():
            mine = pc.and_(pc.equal(partitions, partition), pc.less(offsets, offset)).fill_null(False)
            passed = pc.or_(passed, mine)
        return passed
