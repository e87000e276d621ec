"""After a load into a real log, the content of the files is in the topic."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.config.model import Config
from frazil.config.sections.log import LogConfig
from frazil.errors import ArrowConversion, MemoryAlignment, RecordTooLarge, SchemaMismatch, SerializationError
from frazil.formats import kafka
from frazil.load.inputs import Input, find_input
from frazil.load.loader import Loaded, Loader
from frazil.load.progress import Unwatched
from frazil.log.log import Log
from frazil.log.schema.schema import plain
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from tests.examples import examples
from tests.faults.faulty_store import FaultyStore

INT32 = st.integers(-(2**31), 2**31 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.float64(): FINITE,
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=20),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.integers(-(2**40), 2**50),
    pa.decimal128(12, 3): st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 1000),
    pa.list_(pa.int32()): st.lists(INT32, max_size=3),
    pa.struct([("a", pa.int64()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.none() | INT32, "b": st.none() | st.text(max_size=5)}
    ),
}
COLUMNAR_ONLY: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.binary(): st.binary(max_size=10),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["red", "green"]),
    pa.map_(pa.string(), pa.int64()): st.lists(st.tuples(st.text(max_size=3), INT32), max_size=2),
    pa.large_string(): st.text(max_size=20),
}


@st.composite
def tables(draw: st.DrawFn, kinds: dict[pa.DataType, st.SearchStrategy[Any]]) -> pa.Table:
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=4))
    rows = draw(st.integers(1, 12))
    return pa.table(
        {
            f"c{i}": pa.array(draw(st.lists(st.none() | kinds[kind], min_size=rows, max_size=rows)), kind)
            for i, kind in enumerate(chosen)
        }
    )


@contextmanager
def opened(folder: Path, store: ObjectStore | None = None, **settings: int) -> Iterator[Log]:
    log = Log(Config(data_dir=folder / "data", log=LogConfig.model_validate(settings)), store=store)
    try:
        yield log
    finally:
        log.close(seal=False)


def load(log: Log, topic: str, *files: Path, **options: Any) -> Loaded:
    return Loader(log, topic, [find_input(str(file), None) for file in files], **options).run()


class Then(Unwatched):
    """Does something after each append."""

    def __init__(self, do: Callable[[int], None]) -> None:
        self._do = do
        self._appends = 0

    def loading(self, source: Input, read: int, rows: int) -> None:
        self._appends += 1
        self._do(self._appends)


def content(log: Log, topic: str) -> pa.Table:
    batches = [
        records.batch for partition in log.partitions(topic) for records in log.reader(topic, partition).read(0)
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def as_json(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def write_lines(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(row, default=as_json) + "\n" for row in rows))
    return path


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(TYPES | COLUMNAR_ONLY), kind=st.sampled_from(["parquet", "arrow", "ipc"]), data=st.data())
def test_parquet_and_arrow_come_back_equal(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, kind: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("load")
    path = folder / f"file.{kind}"
    size = data.draw(st.integers(1, 12))
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=size)
    else:
        make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with make(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=size)
    with opened(folder) as log:
        done = load(log, "t", path)
        assert (done.rows, done.first_offset, done.end_offset) == (table.num_rows, 0, table.num_rows)
        assert done.sealed_end == table.num_rows
        assert content(log, "t").equals(table.cast(plain(table.schema)))


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(TYPES))
def test_json_lines_with_a_schema_come_back_equal(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> None:
    folder = tmp_path_factory.mktemp("load")
    path = write_lines(folder / "file.jsonl", table.to_pylist())
    with opened(folder) as log:
        done = load(log, "t", path, schema=table.schema)
        assert done.rows == table.num_rows
        assert content(log, "t").equals(table)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"id": st.integers(-(2**63), 2**63 - 1)},
            optional={
                "f": st.none() | FINITE.filter(lambda f: f != int(f)),
                "s": st.none() | st.text(max_size=10),
                "d": st.dates().map(str),
                "b": st.booleans(),
                "l": st.none() | st.lists(st.text(max_size=3), min_size=1, max_size=3),
                "o": st.fixed_dictionaries({"x": INT32}, optional={"y": st.text(max_size=3)}),
            },
        ),
        min_size=1,
        max_size=20,
    )
)
def test_json_lines_without_a_schema_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("load")
    with opened(folder) as log:
        load(log, "t", write_lines(folder / "file.ndjson", rows))
        found = content(log, "t").to_pylist()
    assert [_without_nulls(row) for row in found] == [_without_nulls(row) for row in rows]


def _without_nulls(value: Any) -> Any:
    return {k: _without_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def test_types_of_all_files_are_joined_before_anything_is_appended(tmp_path: Path) -> None:
    ints = write_lines(tmp_path / "ints.jsonl", [{"v": 1}])
    floats = write_lines(tmp_path / "floats.jsonl", [{"v": 1.5, "more": "x"}])
    words = write_lines(tmp_path / "words.jsonl", [{"v": "word"}])
    with opened(tmp_path) as log:
        with pytest.raises(SerializationError, match=r"words\.jsonl, line 1: column 'v'"):
            load(log, "t", floats, ints, words)
        assert log.topics() == []
        assert load(log, "t", floats, ints).rows == 2
        assert content(log, "t").to_pylist() == [{"v": 1.5, "more": "x"}, {"v": 1.0, "more": None}]


def test_what_a_topic_cannot_take_is_told_with_the_file(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        load(log, "t", write_lines(tmp_path / "a.jsonl", [{"v": 1}]))
        with pytest.raises(SerializationError, match=r"b\.jsonl, line 2: .*int64"):
            load(log, "t", write_lines(tmp_path / "b.jsonl", [{"v": 2}, {"v": 2.5}]))
        pq.write_table(pa.table({"v": ["x"]}), tmp_path / "c.parquet")
        with pytest.raises(SchemaMismatch, match=r"c\.parquet: .*'v'"):
            load(log, "t", tmp_path / "c.parquet")
        load(log, "t", write_lines(tmp_path / "d.jsonl", [{"new": "column"}]))
        assert content(log, "t").to_pylist() == [{"v": 1, "new": None}, {"v": None, "new": "column"}]


def test_a_schema_given_is_all_there_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1, 2], "extra": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": [1, 300]}), tmp_path / "b.parquet")
    schema = pa.schema([("v", pa.int8())])
    with opened(tmp_path) as log:
        with pytest.raises(SchemaMismatch, match="'extra'"):
            load(log, "t", tmp_path / "a.parquet", schema=schema)
        with pytest.raises(ArrowConversion, match=r"b\.parquet, rows 1 to 2"):
            load(log, "t", tmp_path / "b.parquet", schema=schema)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_large_files_are_split_and_a_row_over_the_limit_is_named(tmp_path: Path, kind: str) -> None:
    def write(name: str, table: pa.Table) -> Path:
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        return path

    rng = random.Random(7)
    fits = write("fits", pa.table({"n": range(60), "v": [rng.randbytes(100_000) for _ in range(60)]}))
    over = write("over", pa.table({"n": range(3), "v": [b"x", b"x", rng.randbytes(2_000_000)]}))
    with opened(tmp_path, max_append_mb=1) as log:
        assert load(log, "t", fits).rows == 60
        assert content(log, "t")["n"].to_pylist() == list(range(60))
        with pytest.raises(RecordTooLarge, match=f"over.{kind}, row 3"):
            load(log, "t", over)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
@pytest.mark.parametrize("harm", ["empty", "cut", "other"])
def test_files_that_are_not_what_they_say(tmp_path: Path, name: str, harm: str) -> None:
    path = tmp_path / name
    pq.write_table(pa.table({"v": range(1000)}), path)
    if name != "a.parquet":
        with pa.ipc.new_file(path, pa.schema([("v", pa.int64())])) as writer:
            writer.write_table(pa.table({"v": range(1000)}))
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "other": b"something else"}[harm])
    with opened(tmp_path) as log, pytest.raises(SerializationError, match=f"{name} cannot be read"):
        load(log, "t", path)


def test_arrow_buffers_that_begin_between_two_words(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, pa.schema([("v", pa.binary())])) as writer:
        writer.write_table(pa.table({"v": [b"x" * 2000]}))
    misaligned = path.read_bytes().replace(struct.pack("<qq", 8, 2000), struct.pack("<qq", 9, 1999))
    path.write_bytes(misaligned)
    with opened(tmp_path) as log, pytest.raises(MemoryAlignment, match=r"a\.arrow cannot be read as Arrow: Buffer"):
        load(log, "t", path)


def test_columns_that_say_nothing_are_left_out_and_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1], "nothing": pa.nulls(1)}), tmp_path / "a.parquet")
    write_lines(tmp_path / "b.jsonl", [{"v": 2, "empty": [], "o": {"x": 1, "y": None}}])
    with opened(tmp_path) as log:
        load(log, "t", tmp_path / "a.parquet", tmp_path / "b.jsonl")
        assert content(log, "t").to_pylist() == [{"v": 1, "o": None}, {"v": 2, "o": {"x": 1}}]


def test_a_store_that_goes_down_leaves_the_records_in_the_wal(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore(tmp_path / "data/store"), random.Random(1))
    first, second = (write_lines(tmp_path / f"{name}.jsonl", [{"v": i} for i in range(9)]) for name in "ab")
    with opened(tmp_path, store) as log:
        load(log, "t", first)
        log.writer("t").seal_all()
        done = load(log, "t", second, watcher=Then(lambda _: setattr(store, "down", True)))
        assert (done.rows, done.sealed_end) == (9, 9)
        assert done.not_sealed_because
        store.down = False
    with opened(tmp_path) as log:
        assert content(log, "t")["v"].to_pylist() == [*range(9), *range(9)]


# --- --once ------------------------------------------------------------------------------------------------


def test_a_file_is_appended_once_whatever_it_is_called(tmp_path: Path) -> None:
    rows = [{"v": i} for i in range(100)]
    path = write_lines(tmp_path / "a.jsonl", rows)
    with opened(tmp_path) as log:
        assert load(log, "t", path, remember=True).rows == 100
    renamed = path.rename(tmp_path / "b.jsonl")
    other = write_lines(tmp_path / "c.jsonl", [{"v": 100}])
    with opened(tmp_path) as log:
        done = load(log, "t", renamed, other, renamed, remember=True)
        assert [(file.rows, file.already_stored) for file in done.files] == [(0, 100), (1, 0), (0, 100)]
        assert content(log, "t")["v"].to_pylist() == list(range(101))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("ack", ["local", "object"])
def test_a_load_cut_off_anywhere_goes_on(
    tmp_path: Path, kind: str, ack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds also with other settings, which change where appends begin and end."""
    monkeypatch.setattr("frazil.load.json_blocks.BLOCK_BYTES", 100)
    monkeypatch.setattr("frazil.load.inputs.READ_BYTES", 100)
    monkeypatch.setattr("frazil.load.columnar.BATCH_BYTES", 100)
    rows = [{"v": i} for i in range(200)]
    path = tmp_path / f"a.{kind}"
    pq.write_table(pa.Table.from_pylist(rows), path) if kind == "parquet" else write_lines(path, rows)
    topics = {"t": {"ack": ack}}

    class Stop(Exception):
        pass

    for most in (1, 3, 7, 1000):

        def stop(appends: int, most: int = most) -> None:
            if appends == most:
                raise Stop

        log = Log(Config.model_validate({"data_dir": tmp_path / "data", "topics": topics}))
        with suppress(Stop):
            load(log, "t", path, remember=True, watcher=Then(stop))
        log.close(seal=False)
        monkeypatch.setattr("frazil.load.json_blocks.BLOCK_BYTES", 100 + 37 * most)
    with opened(tmp_path) as log:
        assert sorted(content(log, "t")["v"].to_pylist()) == list(range(200))


def test_a_topic_from_kafka_takes_no_files(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as log:
        log.writer("orders", kafka.SCHEMA, partition=0)
        with pytest.raises(SchemaMismatch, match="comes from Kafka"):
            load(log, "orders", write_lines(tmp_path / "a.jsonl", [{"a": 1}]))
