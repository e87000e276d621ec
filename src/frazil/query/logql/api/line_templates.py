"""Groups lines that differ in few words, and finds what they have in common: `order <_> is late`.

Words with digits are variable from the start, which Polars finds in all lines at once. What then differs is compared
word by word, as Drain does it: two texts of as many words that agree in enough of them are of one template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl
import pyarrow as pa

ANY = "<_>"
MOST_TEMPLATES = 500
"""Texts that would need more templates are left out."""
MOST_CHARACTERS = 2000
"""Only the beginning of longer lines counts."""

_VARIABLE = r"""[^\s=,;:"'(){}\[\]<>|/]*\d[^\s=,;:"'(){}\[\]<>|/]*"""
_REPEATED = r"<_>(?:[:/.,]<_>)+"
_MESSAGE = r'"(?:log|message|msg|msg_|_msg|content)"\s*:\s*"((?:[^"\\]|\\.)*)"'
_WORD = re.compile(r"\s+|[^\s=]+=?|=")
_ENOUGH = 0.5


def masked(lines: pa.Array) -> pl.Series:
    """Returns the lines with variable words replaced. Of JSON only the message is looked at."""
    texts = pl.Series("line", lines, dtype=pl.String).str.slice(0, MOST_CHARACTERS).to_frame()
    line = pl.col("line")
    is_object = line.str.starts_with("{")
    message = (pl.lit(ANY) + line.str.extract(_MESSAGE, 1) + pl.lit(ANY)).fill_null(ANY)
    text = pl.when(is_object).then(message).otherwise(line)
    found = texts.select(text.str.replace_all(_VARIABLE, ANY).str.replace_all(_REPEATED, ANY).str.strip_chars())
    return found.to_series()


class LineTemplates:
    """Collects templates. A text that was seen once keeps its template, which may become more general."""

    def __init__(self) -> None:
        self._templates: list[list[str]] = []
        self._alike: dict[tuple[str, int, str], list[int]] = {}
        self._known: dict[tuple[str, str], int | None] = {}

    def number_of(self, text: str, level: str) -> int | None:
        """Returns the number of the template; None if there are too many already. Each level has its own."""
        key = (text, level)
        if key not in self._known:
            self._known[key] = self._find(_WORD.findall(text), level)
        return self._known[key]

    def _find(self, words: list[str], level: str) -> int | None:
        alike = self._alike.setdefault((level, len(words), words[0] if words else ""), [])
        best = max(alike, key=lambda number: _agreeing(self._templates[number], words), default=None)
        if best is not None and _agreeing(self._templates[best], words) >= _ENOUGH * _countable(words):
            self._templates[best] = [
                one if one == other else ANY for one, other in zip(self._templates[best], words, strict=True)
            ]
            return best
        if len(self._templates) >= MOST_TEMPLATES:
            return None
        self._templates.append(words)
        alike.append(len(self._templates) - 1)
        return alike[-1]

    def text(self, number: int) -> str:
        return "".join(self._templates[number])


def _agreeing(template: Iterable[str], words: Iterable[str]) -> int:
    return sum(one == other and not one.isspace() for one, other in zip(template, words, strict=True))


def _countable(words: Iterable[str]) -> int:
    return sum(not word.isspace() for word in words)
