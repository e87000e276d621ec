"""Decodes the format `raw`: values stay bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.formats.values import DecodedColumn, DecodedValues, Payloads


@dataclass(frozen=True)
class RawDecoder:
    records = False

    def kinds(self) -> Iterable[pa.DataType]:
        return (pa.binary(),)

    def survey(self, payloads: Payloads, known: pa.Schema | None) -> Iterable[pa.DataType]:
        return self.kinds()

    def decode(self, payloads: Payloads, known: pa.Schema | None) -> DecodedValues:
        return DecodedValues([DecodedColumn(np.arange(len(payloads.values)), payloads.values)], {})
