"""Finds out which rows can have a metric, from what a query says about its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.query.promql.parse.regex import match_values
from frazil.query.promql.parse.tree import METRIC_NAME, Matcher
from frazil.query.promql.storage.target_info import TARGET_INFO
from frazil.query.promql.storage.unit_index import Shape
from frazil.scan.predicates.tree import Column, In, Predicate

SUFFIXES = {
    Shape.NUMBER: ("",),
    Shape.NATIVE: ("",),
    Shape.CLASSIC: ("_bucket", "_sum", "_count"),
    Shape.SUMMARY: ("", "_sum", "_count"),
}
"""The series of rows have the names of their metrics with these at the end."""
_ALTERNATIVES = re.compile(r"[A-Za-z0-9_:]+(\|[A-Za-z0-9_:]+)*")


@dataclass(frozen=True)
class NameCondition:
    """Is what the matchers of a query say about the name."""

    matchers: tuple[Matcher, ...]

    @classmethod
    def of(cls, matchers: Sequence[Matcher]) -> NameCondition:
        return cls(tuple(matcher for matcher in matchers if matcher.name == METRIC_NAME))

    @property
    def exact(self) -> frozenset[str] | None:
        """Returns the only names that are possible, or None if there are too many to tell."""
        found: frozenset[str] | None = None
        for matcher in self.matchers:
            if matcher.op == "=":
                names = frozenset([matcher.value])
            elif matcher.op == "=~" and _ALTERNATIVES.fullmatch(matcher.value):
                names = frozenset(matcher.value.split("|"))
            else:
                continue
            found = names if found is None else found & names
        return found

    def accepts(self, names: Sequence[str]) -> list[bool]:
        found = [True] * len(names)
        for matcher in self.matchers:
            if matcher.op in ("=", "!="):
                same = [name == matcher.value for name in names]
            else:
                same = match_values(matcher.value, names)
            wanted = matcher.op in ("=", "=~")
            found = [one and each == wanted for one, each in zip(found, same, strict=True)]
        return found

    def accepts_shape(self, shape: Shape, names: Sequence[str]) -> list[bool]:
        """Returns for each metric whether any of its series has such a name."""
        found = [False] * len(names)
        for suffix in SUFFIXES[shape]:
            accepted = self.accepts([name + suffix if name else name for name in names])
            found = [one or each for one, each in zip(found, accepted, strict=True)]
        return found

    @property
    def wants_targets(self) -> bool:
        return self.accepts([TARGET_INFO])[0]

    @property
    def predicate(self) -> Predicate | None:
        """Returns a predicate that is true for all rows that matter; None if they cannot be told by their name."""
        names = self.exact
        if names is None or self.wants_targets:
            return None
        bases = {name.removesuffix(suffix) for name in names for suffix in ("_bucket", "_sum", "_count")}
        return In(Column("prometheus_name"), frozenset(names | bases))
