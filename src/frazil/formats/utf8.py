"""Decodes the format `string`: values are text in UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.values import DecodedColumn, DecodedValues, Payloads


@dataclass(frozen=True)
class TextDecoder:
    records = False

    def kinds(self) -> Iterable[pa.DataType]:
        return [pa.string()]

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        return self.kinds()

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        faults = invalid_utf8(payloads.values)
        places = np.delete(np.arange(len(payloads.values)), list(faults))
        texts = payloads.values.take(pa.array(places)) if faults else payloads.values
        return DecodedValues([DecodedColumn(places, texts.cast(pa.string()))], faults)


def invalid_utf8(values: pa.Array) -> dict[int, str]:
    """Returns the positions of values that are not UTF-8, each with the reason."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        suspects = pc.indices_nonzero(pc.invert(pc.string_is_ascii(values.view(pa.string())))).to_pylist()
        return {place: why for place in suspects if (why := _why_not_text(values[place].as_py()))}
    return {}


def _why_not_text(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: {error.reason} at byte {error.start} (0x{data[error.start]:02x})"
    return None
