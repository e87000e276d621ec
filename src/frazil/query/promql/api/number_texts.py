"""Prints numbers and times as Prometheus's API does."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.promql.parse.literals import print_number
from frazil.query.promql.storage.arrow_columns import Floats, Ints

_EXACT = float(1 << 53)
_PLAIN = 1e10
"""Arrow prints numbers below this as they are wanted, if they are not too small."""


def number_text(value: float) -> str:
    """Returns the shortest decimal; with an exponent below 1e-6 and from 1e21 on."""
    if value == 0 or math.isnan(value) or math.isinf(value) or 1e-6 <= abs(value) < 1e21:
        return print_number(value)
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].zfill(2)}"


def number_texts(values: Floats) -> pa.Array:
    """Returns the texts of many numbers."""
    whole = (values == np.trunc(values)) & (np.abs(values) < _EXACT) & ~((values == 0) & np.signbit(values))
    if whole.all():
        return pa.array(values.astype(np.int64)).cast(pa.string())
    plain = (np.abs(values) < _PLAIN) & (np.abs(values) >= 1e-6)
    texts = pa.array(np.where(plain, values, 1.5)).cast(pa.string())
    if whole.any():
        numbers = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.string())
        texts = pc.if_else(pa.array(whole), numbers, texts)
    others = ~plain & ~whole
    if others.any():
        odd = pa.array([number_text(value) for value in values[others].tolist()], pa.string())
        texts = pc.replace_with_mask(texts, pa.array(others), odd)
    return texts


def time_text(milliseconds: int) -> str:
    """Returns seconds: whole, or with exactly three decimals."""
    seconds, rest = divmod(abs(milliseconds), 1000)
    sign = "-" if milliseconds < 0 else ""
    return f"{sign}{seconds}.{rest:03d}" if rest else f"{sign}{seconds}"


def time_texts(milliseconds: Ints) -> npt.NDArray[np.object_]:
    found = np.empty(len(milliseconds), object)
    found[:] = [time_text(each) for each in milliseconds.tolist()]
    return found
