"""Tells which streams a selector means."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.query.logql.blocks import Labels
from frazil.query.logql.parse.log_tree import Matcher
from frazil.query.logql.regexes import anchored, matches_text


def selected(matchers: Sequence[Matcher], labels: Labels) -> bool:
    """Returns whether a stream fits all matchers; a missing label is an empty one."""
    return all(_fits(matcher, labels.get(matcher.name, "")) for matcher in matchers)


def _fits(matcher: Matcher, value: str) -> bool:
    if matcher.operator in ("=", "!="):
        return (value == matcher.value) == (matcher.operator == "=")
    return matches_text(value, anchored(matcher.value, newlines=True)) == (matcher.operator == "=~")
