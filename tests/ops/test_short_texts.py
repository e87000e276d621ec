"""Tests that long texts are not remembered."""

from __future__ import annotations

from frazil.ops.short_texts import SHORT, remember_short


def test_only_short_texts_are_remembered() -> None:
    asked: list[int] = []

    @remember_short(8)
    def length(text: str, times: int) -> int:
        asked.append(len(text))
        return len(text) * times

    for _ in range(2):
        assert length("abc", 2) == 6
        assert length("x" * SHORT, 1) == SHORT
        assert length("x" * (SHORT + 1), times=2) == 2 * (SHORT + 1)
    assert asked == [3, SHORT, SHORT + 1, SHORT + 1]
