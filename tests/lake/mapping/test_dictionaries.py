"""Tests that dictionary-encoded texts have the same rows, sizes and bounds as plain texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.lake.mapping.dictionaries import combine_columns, decoded_bytes, keep_dictionaries
from frazil.log.schema.repeated_texts import joined
from tests.examples import examples
from tests.lake.random_topics import with_dictionaries

_CODED = pa.dictionary(pa.int32(), pa.string())
_TAGS = pa.map_(pa.string(), pa.string())
_TEXTS = st.lists(st.none() | st.sampled_from("abcd"), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("target", "source", "kept"),
    [
        (pa.string(), _CODED, _CODED),
        (pa.string(), pa.string(), pa.string()),
        (pa.binary(), _CODED, pa.binary()),
        (pa.list_(pa.string()), pa.list_(_CODED), pa.list_(_CODED)),
        (pa.map_(pa.string(), pa.int32()), pa.map_(_CODED, pa.int32()), pa.map_(_CODED, pa.int32())),
        (pa.struct([("a", pa.string())]), pa.struct([("a", _CODED)]), pa.struct([("a", pa.string())])),
    ],
    ids=str,
)
def test_the_types_that_are_kept(target: pa.DataType, source: pa.DataType, kept: pa.DataType) -> None:
    assert keep_dictionaries(target, source).equals(kept)


def test_sizes_are_those_of_the_texts() -> None:
    count = 10_000
    plain = pa.record_batch(
        {
            "id": pa.array(range(count)),
            "text": pa.array([None if i % 5 == 0 else f"some longer text {i % 7}" for i in range(count)]),
            "tags": pa.array([[("pod", f"pod-{i % 100}")] * (i % 3) for i in range(count)], _TAGS),
            "lists": pa.array([[["x" * (i % 10)], []] for i in range(count)], pa.list_(pa.list_(pa.string()))),
        }
    )
    encoded = with_dictionaries(plain)
    assert encoded.nbytes < 0.7 * plain.nbytes
    for start, size in ((0, count), (0, 100), (9_000, 1_000), (5_000, 1)):
        expected = plain.slice(start, size).nbytes
        # The bytes of nulls are not counted for texts.
        assert decoded_bytes(encoded.slice(start, size)) == pytest.approx(expected, rel=0.05, abs=64)
        assert decoded_bytes(plain.slice(start, size)) == expected


@settings(max_examples=examples(200), deadline=None)
@given(texts=st.lists(_TEXTS, min_size=1, max_size=3), chosen=st.sets(st.integers(0, 11)))
def test_bounds_are_those_of_the_rows(texts: list[list[str | None]], chosen: set[int]) -> None:
    """A file may have only some of the rows that a dictionary was made for."""
    schema = pa.schema([("text", pa.string()), ("list", pa.list_(pa.string()))])
    given = [pa.record_batch([_coded(each), _listed(each)], ["text", "list"]) for each in texts]
    rows = combine_columns(joined(given, schema), schema)
    places = pa.array(sorted(place for place in chosen if place < len(rows)), pa.int64())
    assert _written(rows.take(places)) == _written(pa.table(rows.cast(schema)).take(places))


def _coded(texts: list[str | None]) -> pa.Array:
    return pa.array(texts, pa.string()).dictionary_encode()


def _listed(texts: list[str | None]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(texts) + 1), pa.int32()), _coded(texts))


def _written(rows: pa.Table) -> tuple[list[tuple[object, ...] | None], list[dict[str, object]]]:
    """Returns the statistics of a file's columns, and its rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False)
    source = pa.BufferReader(sink.getvalue())
    metadata = pq.read_metadata(source)
    said: list[tuple[object, ...] | None] = []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            found = column.statistics
            said.append(None if found is None else (found.null_count, found.has_min_max and (found.min, found.max)))
    return said, pq.read_table(source).to_pylist()
