"""Tests patterns of keys."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.topics.subscriptions.key_routing import one_of

PATTERNS = st.lists(st.text("ab*?[]!.\n\\", max_size=6), min_size=1, max_size=3)


def matches(pattern: str, key: str) -> bool:
    """Matches with a pattern that backtracks."""
    escaped = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(escaped, key, re.DOTALL) is not None


@given(PATTERNS, st.text("ab[]!.\n\\", max_size=8))
def test_one_of_the_patterns_matches(patterns: list[str], key: str) -> None:
    assert one_of(patterns)(key) == any(matches(each, key) for each in patterns)


@pytest.mark.timeout(60)
def test_no_pattern_takes_for_ever() -> None:
    """A pattern that backtracks would try more ways than there are atoms."""
    wanted = one_of(["*a" * 30 + "*b"])
    assert not wanted("a" * 5_000 + "c")
    assert not wanted("ab" * 2_000 + "c")
    assert wanted("a" * 5_000 + "b")
