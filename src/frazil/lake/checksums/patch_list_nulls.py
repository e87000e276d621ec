"""Patches PyIceberg so that it reads null lists and null maps as null.

When PyIceberg projects the columns of a file to the requested schema, it rebuilds lists of structs and maps to
structs without their nulls, so they are read as empty. Importing this module patches its projection.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.types import ListType, MapType

from frazil.lake.pyiceberg_internals import project_with


class _KeepingNulls(ArrowProjectionVisitor):
    def list(self, list_type: ListType, list_array: Any, value_array: Any) -> Any:
        return _with_nulls_of(list_array, super().list(list_type, list_array, value_array))

    def map(self, map_type: MapType, map_array: Any, key_result: Any, value_result: Any) -> Any:
        return _with_nulls_of(map_array, super().map(map_type, map_array, key_result, value_result))


def _with_nulls_of(original: Any, rebuilt: Any) -> Any:
    if rebuilt is None or not original.null_count or rebuilt.null_count:
        return rebuilt
    offsets, mask = pa.concat_arrays([rebuilt.offsets]), original.is_null()
    if isinstance(rebuilt, pa.MapArray):
        return pa.MapArray.from_arrays(offsets, rebuilt.keys, rebuilt.items, rebuilt.type, mask=mask)
    return type(rebuilt).from_arrays(offsets, rebuilt.values, rebuilt.type, mask=mask)


project_with(_KeepingNulls)
