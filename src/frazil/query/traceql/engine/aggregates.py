"""Computes one number for each spanset."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.query.traceql.engine.conditions import Condition
from frazil.query.traceql.engine.spansets import Spansets
from frazil.query.traceql.engine.traces import Traces
from frazil.query.traceql.engine.values import Kind, Values
from frazil.query.traceql.parse.tree import Aggregate


def aggregate(node: Aggregate, traces: Traces, sets: Spansets) -> Values:
    """Returns the number of each set; nil where no span has one.

    The result has the type of the set's first number. Of a sum, numbers of other types are no part.
    """
    if node.expression is None:
        return Values.of_ints(sets.sizes(), Kind.INT)
    values = Condition(node.expression).value(node.expression, traces).take(sets.rows).expanded()
    places = np.flatnonzero(values.numeric)
    owners = sets.set_of_row[places]
    kinds = np.zeros(sets.count, np.uint8)
    kinds[owners[::-1]] = values.kinds[places[::-1]]
    if node.function == "sum":
        same = values.kinds[places] == kinds[owners]
        places, owners = places[same], owners[same]
    ints, floats = np.zeros(sets.count, np.int64), np.zeros(sets.count)
    if not len(places):
        return Values(kinds, ints, floats, pa.nulls(sets.count, pa.string()))
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    there = owners[begins]
    broken = np.zeros(sets.count, bool)
    broken[owners[values.kinds[places] == Kind.FLOAT]] = True
    match node.function:
        case "avg":
            counts = np.diff(np.append(begins, len(owners)))
            means = np.add.reduceat(values.numbers[places], begins) / counts
            floats[there], ints[there] = means, means.astype(np.int64)
            broken |= kinds == Kind.INT
        case "sum":
            ints[there] = np.add.reduceat(values.ints[places], begins)
            floats[there] = np.add.reduceat(values.floats[places], begins)
        case least_or_most:
            reduce = np.minimum.reduceat if least_or_most == "min" else np.maximum.reduceat
            ints[there] = reduce(values.ints[places], begins)
            floats[there] = reduce(values.numbers[places], begins)
    kinds = np.where(broken, np.uint8(Kind.FLOAT), kinds)
    return Values(kinds, ints, floats, pa.nulls(sets.count, pa.string()))
