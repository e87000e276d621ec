"""Gives the lines of a case to the engine as arrays in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.query.logql.columns import from_texts
from tests.conformance.logql_script import Line
from tests.query.logql.memory_source import MemoryBlock, MemorySource


def memory_source(lines: list[Line]) -> MemorySource:
    streams: dict[tuple[tuple[str, str], ...], int] = {}
    codes = [streams.setdefault(tuple(sorted(line.labels.items())), len(streams)) for line in lines]
    names = sorted({name for line in lines for name in line.metadata})
    block = MemoryBlock(
        times_ns=np.array([line.time_ns for line in lines], np.int64),
        lines=pa.array([line.text for line in lines], pa.string()),
        streams=[dict(labels) for labels in streams],
        stream_codes=np.array(codes, np.int32),
        metadata_columns={name: from_texts(line.metadata.get(name) for line in lines) for name in names},
    )
    return MemorySource(block, rows_at_once=50)
