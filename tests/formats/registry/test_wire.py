"""Payloads are told apart by their schema, wherever they lie in memory."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.registry.wire import SchemaId, cut, gather
from frazil.formats.values import Payloads

GUID = uuid.UUID(int=7)


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def found(payloads: Payloads) -> dict[int, tuple[SchemaId, bytes]]:
    """Each place that has a payload, with its schema."""
    groups, faults = cut(payloads)
    places: dict[int, tuple[SchemaId, bytes]] = {}
    for group in groups:
        assert (group.places[1:] > group.places[:-1]).all()
        texts = gather(group.data, group.starts, group.ends).to_pylist()
        for place, text in zip(group.places.tolist(), texts, strict=True):
            assert place not in places
            places[place] = group.schema, text
    assert not set(places) & set(faults)
    return places


numbers = st.sampled_from([0, 1, 258, 2**32 - 1])
good = st.tuples(numbers | st.uuids().map(str), st.binary(max_size=20))
bad = st.sampled_from([b"", b"\0", b"\0\0\0\0", b"{}", b"\1" + bytes(15), b"\xff" * 30])


def written(schema: SchemaId, payload: bytes) -> bytes:
    if isinstance(schema, str):
        return b"\1" + uuid.UUID(schema).bytes + payload
    return framed(schema, payload)


@given(st.lists(good | bad | st.none()), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_each_payload_has_its_schema(
    values: list[tuple[SchemaId, bytes] | bytes | None], before: int, after: int, large: bool
) -> None:
    texts = [written(*value) if isinstance(value, tuple) else value for value in values]
    around = [framed(9, b"not ours")]
    array = pa.array(around * before + texts + around * after, pa.large_binary() if large else pa.binary())
    payloads = Payloads(array.slice(before, len(texts)))
    assert found(payloads) == {place: value for place, value in enumerate(values) if isinstance(value, tuple)}
    assert set(cut(payloads)[1]) == {place for place, value in enumerate(values) if isinstance(value, bytes)}


def test_a_header_says_which_schema_it_is() -> None:
    values = pa.array([b"whole", framed(3, b"cut"), b"also whole", b"lost", None, b"short"])
    said = [b"\1" + GUID.bytes, None, b"\0\0\0\0\5rest", b"what", b"\0\0\0\0\5", b"\1\2"]
    payloads = Payloads(values, pa.array(said, pa.binary()))
    assert found(payloads) == {0: (str(GUID), b"whole"), 1: (3, b"cut"), 2: (5, b"also whole")}
    groups, faults = cut(payloads)
    assert [group.rest for group in groups] == [b"", None, b"rest"]
    assert set(faults) == {3, 5}


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"", "too short.* 0 bytes"), (b"\0\0\0\0", "too short.* 4 bytes"), (b'{"a": 1}', "begins with the byte 0x7b")],
)
def test_reasons(value: bytes, reason: str) -> None:
    _, faults = cut(Payloads(pa.array([value])))
    with pytest.raises(ValueError, match=reason):
        raise ValueError(faults[0])


def test_nothing() -> None:
    for values in ([], [None, None]):
        assert cut(Payloads(pa.array(values, pa.binary()))) == ([], {})
