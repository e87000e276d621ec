"""Collects what a query has to say beside its result: warnings and infos, each once, with a position."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from frazil.query.promql.parse.tree import Node, print_shortest

MOST_SENT = 10
Key = tuple[bool, str]


@dataclass
class Monotonicity:
    """Adds up what had to be repaired in classic histograms."""

    lowest: float
    highest: float
    difference: float
    samples: int
    first_ms: int
    last_ms: int


@dataclass
class Annotations:
    """Keeps texts by kind; of those that differ in their position only, the first stays."""

    query: str
    texts: dict[Key, Node | None] = field(default_factory=dict)
    repaired: dict[str, tuple[Monotonicity, Node]] = field(default_factory=dict)
    overlaps: dict[str, int] = field(default_factory=dict)

    def warn(self, text: str, node: Node | None = None) -> None:
        self.texts.setdefault((True, f"PromQL warning: {text}"), node)

    def info(self, text: str, node: Node | None = None) -> None:
        self.texts.setdefault((False, f"PromQL info: {text}"), node)

    def repair(self, text: str, found: Monotonicity, node: Node) -> None:
        """Notes that buckets were not monotonic; several notes become one."""
        known = self.repaired.get(text)
        if known is None:
            self.repaired[text] = (found, node)
            return
        old = known[0]
        old.lowest, old.highest = min(old.lowest, found.lowest), max(old.highest, found.highest)
        old.difference = max(old.difference, found.difference)
        old.samples += found.samples
        old.first_ms, old.last_ms = min(old.first_ms, found.first_ms), max(old.last_ms, found.last_ms)

    def overlap(self, metric: str, node: Node) -> None:
        """Notes a counter that began anew before its last sample."""
        self.overlaps[metric] = self.overlaps.get(metric, 0) + 1
        text = f'sample has start time that overlaps with previous sample timestamp for metric "{metric}"'
        self.texts.setdefault((True, f"PromQL warning: {text}"), node)

    @property
    def warnings(self) -> list[str]:
        return self._shown(True)

    @property
    def infos(self) -> list[str]:
        repaired = [
            f"PromQL info: {text}{describe(found)}{self.position(node)}"
            for text, (found, node) in self.repaired.items()
        ]
        return self._shown(False) + repaired

    def _shown(self, warning: bool) -> list[str]:
        shown = []
        for (is_warning, text), node in self.texts.items():
            if is_warning != warning:
                continue
            for metric, times in self.overlaps.items():
                if times > 1 and text.endswith(f'previous sample timestamp for metric "{metric}"'):
                    text = f"{text} ({times} occurrences)"
            shown.append(text + self.position(node))
        return shown

    def position(self, node: Node | None) -> str:
        if node is None:
            return ""
        before = self.query[: node.start]
        line_start = before.rfind("\n") + 1
        column = len(before[line_start:].encode("utf-8", "surrogateescape")) + 1
        return f" ({before.count(chr(10)) + 1}:{column})"


def describe(found: Monotonicity) -> str:
    """Says which buckets were repaired, by how much, and when."""
    first, last = print_time(found.first_ms), print_time(found.last_ms)
    low, high = print_shortest(found.lowest), print_shortest(found.highest)
    return (
        f", from buckets {low} to {high}, with a max diff of {found.difference:.2g}, "
        f"over {found.samples} samples from {first} to {last}"
    )


def print_time(milliseconds: int) -> str:
    """Prints a time as RFC 3339 in UTC."""
    return str(np.datetime64(milliseconds // 1000, "s")) + "Z"
