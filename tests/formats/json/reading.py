"""Decodes JSON texts into rows that are easy to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.config.sections.log import MOST_COLUMNS
from frazil.formats.json import JsonDecoder
from frazil.formats.values import DecodedValues, Payloads


def payloads(texts: Sequence[bytes | str | None]) -> Payloads:
    return Payloads(pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary()))


def decode(
    texts: Sequence[bytes | str | None],
    known: pa.Schema | None = None,
    given: Mapping[str, str] | None = None,
    *,
    records: bool = True,
    most_columns: int = MOST_COLUMNS,
) -> DecodedValues:
    """Checks that each position that is not null is in a column or in the faults, and that `survey` returns the same
    types."""
    decoder = JsonDecoder(given or {}, records=records, most_columns=most_columns)
    decoded = decoder.decode(payloads(texts), known)
    places = [place for part in decoded.columns for place in part.positions.tolist()]
    assert sorted([*places, *decoded.faults]) == [place for place, text in enumerate(texts) if text is not None]
    for part in decoded.columns:
        part.column.validate(full=True)
        assert list(decoder.survey(payloads(texts), known)) == [part.column.type]
    return decoded


def rows(decoded: DecodedValues) -> dict[int, Any]:
    """Returns the rows by position."""
    return {
        place: row
        for part in decoded.columns
        for place, row in zip(part.positions.tolist(), part.column.to_pylist(), strict=True)
    }


def kind(decoded: DecodedValues) -> pa.DataType:
    (part,) = decoded.columns
    return part.column.type


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))
