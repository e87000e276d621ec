"""Decodes lists of serialized messages within records into lists of structs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message

from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.scopes import Columns


def lists_of(
    serialized: pa.ListArray,
    message: type[Message],
    kind: pa.ListType,
    columns_of: Callable[[pa.RecordBatch], Columns],
) -> pa.ListArray:
    """Decodes the messages, and returns lists of structs with the columns that `columns_of` makes of them."""
    items = serialized.flatten()
    fields = list(kind.value_type)
    offsets = np.zeros(len(serialized) + 1, np.int32)
    if not len(items):
        # Most records have no such messages.
        return pa.ListArray.from_arrays(pa.array(offsets), _empty(kind.value_type), kind)
    np.cumsum(serialized.value_lengths().fill_null(0).to_numpy(), out=offsets[1:])
    columns = columns_of(decode(message, items))
    structs = pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, kind)


@cache
def _empty(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)
