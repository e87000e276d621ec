"""Defines the seam between the language and its data: blocks of log lines, and who gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.query.logql.columns import Codes, Column
from frazil.query.logql.parse.log_tree import LineFilter, Matcher

Labels = Mapping[str, str]
Order = Literal["none", "oldest first", "newest first"]


class LogBlock(Protocol):
    """Is some lines with their labels. What a query does not ask for need not be made."""

    @property
    def rows(self) -> int: ...

    @property
    def times_ns(self) -> NDArray[np.int64]: ...

    @property
    def lines(self) -> pa.Array:
        """Returns the lines as texts."""

    @property
    def streams(self) -> Sequence[Labels]:
        """Returns the distinct label sets of the streams. No value is empty."""

    @property
    def stream_codes(self) -> Codes:
        """Returns for each row the number of its stream."""

    def metadata_names(self) -> Sequence[str]:
        """Returns the names of the structured metadata of the block."""

    def metadata(self, name: str) -> Column:
        """Returns one of them."""


@dataclass(frozen=True)
class Selection:
    """Says which lines are wanted. What a source cannot use it may ignore, except for times and matchers."""

    start_ns: int
    """The first moment that is wanted."""
    end_ns: int
    """The first moment that is not wanted any more."""
    matchers: tuple[Matcher, ...]
    line_filters: tuple[LineFilter, ...] = ()
    """Filters of the lines as they are stored. They are applied again to what comes."""
    lines_wanted: bool = True
    """False if no line will be looked at."""
    labels_wanted: frozenset[str] | None = None
    """Labels of streams and metadata that will be looked at; None stands for all."""
    order: Order = "none"
    first_rows: int | None = None
    """With an order, so many lines are probably enough."""


class LogSource(Protocol):
    """Gives the lines of one tenant, or of some."""

    def select(self, selection: Selection) -> Iterator[LogBlock]:
        """Yields the wanted lines. With an order, blocks and the lines in them come in that order of time."""
