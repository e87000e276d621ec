"""Defines the native histogram as a value: counts by bucket, sparse, never changed once made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import IntEnum
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CUSTOM_SCHEMA = -53
LOWEST_SCHEMA, HIGHEST_SCHEMA = -4, 8
MAX_FLOAT = float(np.finfo(np.float64).max)


class Hint(IntEnum):
    """Says what is known of a counter's reset between this histogram and the one before it."""

    UNKNOWN = 0
    RESET = 1
    NOT_RESET = 2
    GAUGE = 3


@dataclass(frozen=True)
class Buckets:
    """Is one side of a histogram: indexes, ascending, with the count of each."""

    indexes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Floats = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.indexes)

    def compact(self) -> Buckets:
        populated = self.counts != 0
        return self if populated.all() else Buckets(self.indexes[populated], self.counts[populated])

    def same(self, other: Buckets) -> bool:
        return bool(
            np.array_equal(self.indexes, other.indexes)
            and np.array_equal(self.counts.view(np.int64), other.counts.view(np.int64))
        )


EMPTY = Buckets()


@dataclass(frozen=True)
class BucketList:
    """Has the buckets of a histogram from the lowest up, the zero bucket among them."""

    lower: Floats
    upper: Floats
    counts: Floats
    side: npt.NDArray[np.int8]
    """-1, 0 and 1: negative, zero and positive buckets."""


@dataclass(frozen=True)
class Histogram:
    """Is a native histogram, exponential (`schema` up to 8) or with custom bounds."""

    schema: int = 0
    count: float = 0.0
    sum: float = 0.0
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    positive: Buckets = EMPTY
    negative: Buckets = EMPTY
    bounds: tuple[float, ...] = ()
    hint: Hint = Hint.UNKNOWN

    @property
    def custom(self) -> bool:
        return self.schema == CUSTOM_SCHEMA

    def with_hint(self, hint: Hint) -> Histogram:
        return self if hint == self.hint else replace(self, hint=hint)

    def compact(self) -> Histogram:
        """Drops empty buckets."""
        positive, negative = self.positive.compact(), self.negative.compact()
        if positive is self.positive and negative is self.negative:
            return self
        return replace(self, positive=positive, negative=negative)

    def times(self, factor: float) -> Histogram:
        return replace(
            self,
            count=multiply(self.count, factor),
            sum=multiply(self.sum, factor),
            zero_count=0.0 if self.custom else multiply(self.zero_count, factor),
            positive=Buckets(self.positive.indexes, multiply_all(self.positive.counts, factor)),
            negative=Buckets(self.negative.indexes, multiply_all(self.negative.counts, factor)),
            hint=Hint.GAUGE if factor < 0 else self.hint,
        )

    def divided(self, divisor: float) -> Histogram:
        count, total = divide(self.count, divisor), divide(self.sum, divisor)
        zero = 0.0 if self.custom else divide(self.zero_count, divisor)
        if divisor == 0:
            return replace(self, count=count, sum=total, zero_count=zero, positive=EMPTY, negative=EMPTY)
        with np.errstate(all="ignore"):
            positive, negative = self.positive.counts / divisor, self.negative.counts / divisor
        return replace(
            self,
            count=count,
            sum=total,
            zero_count=zero,
            positive=Buckets(self.positive.indexes, positive),
            negative=Buckets(self.negative.indexes, negative),
            hint=Hint.GAUGE if divisor < 0 else self.hint,
        )

    def same(self, other: Histogram) -> bool:
        """Whether both are equal, bit by bit; what is known of resets does not count."""
        return (
            self.schema == other.schema
            and bits(self.count) == bits(other.count)
            and bits(self.sum) == bits(other.sum)
            and self.zero_threshold == other.zero_threshold
            and bits(self.zero_count) == bits(other.zero_count)
            and self.bounds == other.bounds
            and self.positive.same(other.positive)
            and self.negative.same(other.negative)
        )

    @cached_property
    def buckets(self) -> BucketList:
        """The buckets from the lowest up; those that overlap the zero bucket begin where it ends."""
        return self.bucket_list(self.zero_threshold)

    def bucket_list(self, begin: float) -> BucketList:
        """Returns the buckets from the lowest up; none begins nearer to zero than this."""
        positive, negative = self.positive, self.negative
        lower, upper = bounds_of(positive.indexes, self.schema, self.bounds)
        if not self.custom and begin > 0:
            lower = np.where(lower < begin, begin, lower)
        parts = [(lower, upper, positive.counts, 1)]
        if self.zero_count > 0:
            zero = np.array([self.zero_threshold])
            parts.insert(0, (-zero, zero, np.array([self.zero_count]), 0))
        if len(negative):
            near, far = bounds_of(negative.indexes, self.schema, ())
            if begin > 0:
                near = np.where(near < begin, begin, near)
            parts.insert(0, (-far[::-1], -near[::-1], negative.counts[::-1], -1))
        return BucketList(
            np.concatenate([p[0] for p in parts]),
            np.concatenate([p[1] for p in parts]),
            np.concatenate([p[2] for p in parts]),
            np.concatenate([np.full(len(p[0]), p[3], np.int8) for p in parts]),
        )


def bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def multiply(value: float, factor: float) -> float:
    return float(multiply_all(np.array(value), factor))


def multiply_all(values: Floats, factor: float) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(values * factor)


def divide(value: float, divisor: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(value) / np.float64(divisor))


# Prometheus's bounds are not always the nearest floats, and are compared and printed exactly. A digit for each of the
# 256 parts of a power of two: 1 is the nearest float, 2 the one below it, and so on.
STEPS_BELOW = (
    "1111112111211111112311222222222211211121122211221122102211221122"
    "1111112222332132112111211112111111121011213311221222112121332222"
    "2121223322322122222222323233323311221121223321332233212232332232"
    "2243223233433343333333444455435422322333324422333243223333543344"
)


@lru_cache(16)
def fractions(schema: int) -> Floats:
    """Returns the bounds of one power of two, cut into 2^schema parts."""
    parts = 1 << schema
    below = np.array([int(digit) - 1 for digit in STEPS_BELOW[:: 256 // parts]])
    nearest = [float(Decimal(2) ** (Decimal(part) / parts)) for part in range(parts)]
    return np.array(nearest) - below * 2.0**-52


def upper_bounds(indexes: Ints, schema: int) -> Floats:
    """Returns the upper bounds of exponential buckets. The last finite one ends at the greatest float."""
    with np.errstate(over="ignore"):
        if schema < 0:
            exponents = indexes << -schema
            found = np.ldexp(1.0, np.clip(exponents, -1100, 1100).astype(np.int32))
            return np.where(exponents == 1024, MAX_FLOAT, found)
        fraction = fractions(schema)[indexes & ((1 << schema) - 1)]
        exponents = indexes >> schema
        found = np.ldexp(fraction, np.clip(exponents, -1100, 1100).astype(np.int32))
        return np.where((exponents == 1024) & (fraction == 1), MAX_FLOAT, found)


def bounds_of(indexes: Ints, schema: int, bounds: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Returns lower and upper bounds of buckets, of negative ones mirrored."""
    if schema == CUSTOM_SCHEMA:
        edges = np.array([-math.inf, *bounds, math.inf])
        return edges[indexes], edges[indexes + 1]
    return upper_bounds(indexes - 1, schema), upper_bounds(indexes, schema)
