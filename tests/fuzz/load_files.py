"""Loads damaged Parquet and Arrow files as `frazil load` does, in a process that may die of it.

`python -m tests.fuzz.load_files SEED CASES FOLDER` prints what became of them as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import SerializationError
from frazil.load.columnar import open_columnar, read_batches
from frazil.load.inputs import Format, Input
from tests.fuzz.mutation import damaged, scratched

ROWS = 50
LIMIT = 64 << 20


def main(seed: int, cases: int, folder: str) -> None:
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    valid = list(_valid(chance))
    for _ in range(cases):
        kind, body = chance.choice(valid)
        other = chance.choice([content for name, content in valid if name == kind])
        path = Path(folder) / f"damaged.{kind}"
        path.write_bytes(scratched(chance, body) if chance.random() < 0.7 else damaged(chance, body, other))
        counts[f"{kind} {_load(Input(path, kind))}"] += 1
        counts["cases"] += 1
    print(json.dumps(counts))  # noqa: T201 - for the test


def _load(source: Input) -> str:
    try:
        with open_columnar(source) as file:
            str(file.schema)
        for piece in read_batches(source, LIMIT, 0, lambda batch, _: batch):
            # Storing the rows reads all values, so this does too.
            pa.RecordBatch.from_pylist(piece.batch.to_pylist(), piece.batch.schema)
    except SerializationError as error:
        return "refused" if source.name in str(error) else f"refused without its name: {error}"
    except (pa.ArrowException, ValueError, OverflowError, KeyError, NotImplementedError):
        # Some values have no counterpart in Python, such as years beyond 9999 and intervals in a dictionary.
        return "read in part"
    return "read"


def _valid(chance: random.Random) -> Iterator[tuple[Format, bytes]]:
    for table in _tables(chance):
        for options in _PARQUET:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, row_group_size=20, **options)
            yield "parquet", sink.getvalue().to_pybytes()
        for codec in (None, "lz4", "zstd"):
            for writer in (pa.ipc.new_file, pa.ipc.new_stream):
                sink = pa.BufferOutputStream()
                with writer(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as stream:
                    stream.write_table(table, max_chunksize=20)
                yield "arrow", sink.getvalue().to_pybytes()


_PARQUET = (
    {"compression": "none", "use_dictionary": False},
    {"compression": "snappy", "use_dictionary": True},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip", "use_byte_stream_split": ["double"], "use_dictionary": ["text"]},
)


def _tables(chance: random.Random) -> Iterator[pa.Table]:
    columns = {
        "int": pa.array(range(ROWS)),
        "double": pa.array([chance.random() for _ in range(ROWS)]),
        "text": pa.array([chance.choice(("", "a", "é" * 9, None)) for _ in range(ROWS)]),
        "bytes": pa.array([chance.randbytes(chance.randrange(30)) for _ in range(ROWS)]),
        "bool": pa.array([bool(each % 3) for each in range(ROWS)]),
        "time": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
        "decimal": pa.array(range(ROWS)).cast(pa.decimal128(20, 0)),
        "list": pa.array([[1] * chance.randrange(4) for _ in range(ROWS)]),
        "map": pa.array([[("a", "b")] * chance.randrange(3) for _ in range(ROWS)], pa.map_(pa.string(), pa.string())),
        "struct": pa.array([{"a": {"b": [each, None]}} for each in range(ROWS)]),
    }
    yield pa.table(columns)
    yield pa.table({**columns, "coded": columns["text"].dictionary_encode()})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
