"""Messages within records, as lists of structs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from frazil.telemetry.levels import Columns


def lists_of(
    decoded: pa.ListArray, kind: pa.ListType, columns_of: Callable[[pa.StructArray], Columns]
) -> pa.ListArray:
    """The lists that were decoded, with structs of the columns that their items become."""
    items = decoded.flatten()
    fields = list(kind.value_type)
    offsets = np.zeros(len(decoded) + 1, np.int32)
    if not len(items):
        # Most records have none.
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array([], kind.value_type), kind)
    np.cumsum(decoded.value_lengths().fill_null(0).to_numpy(), out=offsets[1:])
    columns = columns_of(items)
    structs = pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, kind)
