"""Texts that repeat are dictionary-encoded, and are the same texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.lake.mapping.dictionaries import combine_columns
from frazil.log.schema.repeated_texts import SAMPLE, joined, with_repeated_texts
from tests.examples import examples

TAGS = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema([("text", pa.string()), ("tags", TAGS), ("names", pa.list_(pa.string())), ("number", pa.int64())])

_texts = st.sampled_from(["", "a", "b", "Ü", "a longer text"])
_maybe = st.one_of(st.none(), _texts)
_row = st.fixed_dictionaries(
    {
        "text": _maybe,
        "tags": st.one_of(
            st.none(), st.dictionaries(_texts, _maybe, max_size=3).map(lambda found: list(found.items()))
        ),
        "names": st.one_of(st.none(), st.lists(_maybe, max_size=3)),
        "number": st.integers(0, 9),
    }
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(_row, max_size=40), max_size=4), st.integers(1, 20), st.integers(0, 5))
def test_the_texts_are_the_same(chunks: list[list[dict[str, object]]], repeated: int, skip: int) -> None:
    """It works for slices too, and after batches with other dictionaries were joined, as writers do."""
    batches = [pa.RecordBatch.from_pylist(chunk * repeated, SCHEMA) for chunk in chunks]
    plain = pa.Table.from_batches(batches, SCHEMA).slice(skip)
    encoded = with_repeated_texts(plain)
    encoded.validate(full=True)
    assert encoded.cast(SCHEMA).to_pylist() == plain.to_pylist()
    pieces = encoded.to_batches(max_chunksize=7)
    if pieces:
        assert combine_columns(joined(pieces, SCHEMA), SCHEMA).cast(SCHEMA).to_pylist() == plain.to_pylist()


def test_only_what_repeats() -> None:
    count = 10 * SAMPLE
    rows = pa.table(
        {
            "level": pa.array(["info", "error"] * (count // 2)),
            "line": pa.array([f"line {number}" for number in range(count)]),
            "runs": pa.array([f"run {number // 1000}" for number in range(count)]),
            "rare": pa.array([None if number else "text" for number in range(count)]),
            "tags": pa.array([[("id", str(number))] for number in range(count)], TAGS),
        }
    )
    found = {field.name: field.type for field in with_repeated_texts(rows).schema}
    assert types.is_dictionary(found["level"])
    assert types.is_dictionary(found["runs"])
    assert types.is_string(found["line"])
    assert types.is_string(found["rare"])
    assert types.is_dictionary(found["tags"].key_type)
    assert types.is_string(found["tags"].item_type)
