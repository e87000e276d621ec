"""Defines series: labels, and a sample for each step that has one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from frazil.query.traceql.engine.values import Floats
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import Static

NAME = "__name__"


class Label(NamedTuple):
    key: str
    value: Static


Labels = tuple[Label, ...]


class Exemplar(NamedTuple):
    """Is one span that a sample counts."""

    labels: Labels
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True, eq=False)
class Series:
    labels: Labels
    samples: Floats
    """Has NaN for a step without a sample."""
    exemplars: tuple[Exemplar, ...] = field(default=())

    @property
    def sort_key(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        return len(self.labels), tuple((label.key, text_of(label.value)) for label in self.labels)

    @property
    def empty(self) -> bool:
        return bool(np.isnan(self.samples).all())

    def with_samples(self, samples: Floats) -> Series:
        return replace(self, samples=samples)


def text(value: str) -> Static:
    return Static(Type.STRING, value)


def text_of(value: Static) -> str:
    return str(value.value) if value.type is Type.STRING else str(value)


def named(name: str) -> Labels:
    return (Label(NAME, text(name)),)


def in_order(series: list[Series]) -> list[Series]:
    """Sorts series: those with fewer labels first, then by key, then by value."""
    return sorted(series, key=lambda each: each.sort_key)
