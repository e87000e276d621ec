"""Repeats shared values for each record as dictionary indexes.

Otherwise the texts would be created, copied and looked up again on the way into a table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.formats.telemetry.lists import are_empty, empty
from frazil.formats.telemetry.runs import Ints
from frazil.log.schema.nulls import are_null, nulls
from frazil.log.schema.repeated_texts import REPEATS, with_dictionary


def repeat_rows(rows: pa.StructArray, places: Ints) -> dict[str, pa.Array]:
    """Returns the columns of the rows at these positions. Every row must be used."""
    at = pa.array(places)
    worth = len(places) >= REPEATS * len(rows)

    def column(each: pa.Array) -> pa.Array:
        if are_null(each):
            return nulls(len(places), each.type)
        encoded = with_dictionary(each) if worth else each
        return empty(encoded, len(places)) if are_empty(each) else encoded.take(at)

    return {field.name: column(each) for field, each in zip(rows.type, rows.flatten(), strict=True)}


def used_rows(places: Ints, count: int) -> tuple[Ints, Ints]:
    """Returns which of the `count` rows are used, and the positions among those. A dictionary must not have values
    that no row has."""
    counts = np.bincount(places, minlength=count)
    used = np.flatnonzero(counts)
    if len(used) == count:
        return used, places
    return used, (np.cumsum(counts > 0) - 1)[places]
