"""Holds the rows of a block while stages work on them: lines, times and labels of three kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.query.logql.blocks import LogBlock
from frazil.query.logql.columns import ABSENT, Codes, Column, Mask, Rows, constant_column, empty_column

ERROR = "__error__"
ERROR_DETAILS = "__error_details__"
EXTRACTED = "_extracted"

Kind: TypeAlias = Literal["stream", "metadata", "parsed"]
KINDS: tuple[Kind, ...] = ("stream", "metadata", "parsed")
"""Values of a later kind hide those of an earlier one. What a parser finds is renamed so that it hides nothing."""


class Frame:
    """Is changed by stages. Labels of streams and metadata are made when they are first asked for."""

    def __init__(self, block: LogBlock, rows: Rows | None = None) -> None:
        """Begins with these rows of the block, or all."""
        self._block = block
        self._chosen = rows
        self._lines: pa.Array | None = None
        self._labels: dict[Kind, dict[str, Column]] = {kind: {} for kind in KINDS}
        self._kept: set[str] | None = None
        """After `keep`: labels of streams and metadata that may still be made."""
        self._dropped: set[str] = set()

    @property
    def rows(self) -> int:
        return self._block.rows if self._chosen is None else len(self._chosen)

    @property
    def times_ns(self) -> NDArray[np.int64]:
        times = self._block.times_ns
        return times if self._chosen is None else times[self._chosen]

    @property
    def lines(self) -> pa.Array:
        if self._lines is None:
            lines = self._block.lines
            self._lines = lines if self._chosen is None else lines.take(pa.array(self._chosen))
        return self._lines

    @lines.setter
    def lines(self, lines: pa.Array) -> None:
        self._lines = lines

    def filter(self, mask: Mask) -> None:
        """Keeps the rows of the mask."""
        rows = np.flatnonzero(mask)
        if len(rows) == self.rows:
            return
        if self._lines is not None:
            self._lines = self._lines.take(pa.array(rows))
        for columns in self._labels.values():
            for name, column in columns.items():
                columns[name] = column.take(rows)
        self._chosen = rows if self._chosen is None else self._chosen[rows]

    @property
    def stream_codes(self) -> Codes:
        codes = self._block.stream_codes
        return codes if self._chosen is None else codes[self._chosen]

    def original(self, kind: Kind, name: str) -> Column:
        """Returns a label as it came, whatever stages did to it."""
        return self._of_streams(name) if kind == "stream" else self._of_metadata(name)

    def _of_streams(self, name: str) -> Column:
        values: dict[str, int] = {}
        by_stream = [
            ABSENT if (value := labels.get(name)) is None else values.setdefault(value, len(values))
            for labels in self._block.streams
        ]
        if not values:
            return empty_column(self.rows)
        return Column(np.array(by_stream, np.int32)[self.stream_codes], pa.array(list(values)))

    def _of_metadata(self, name: str) -> Column:
        """Returns metadata by the name that it has beside the labels of its stream."""
        found = self._stored_metadata(name)
        if len(found.values):
            found = found.only(~self._of_streams(name).present)
        if name.endswith(EXTRACTED):
            base = name.removesuffix(EXTRACTED)
            renamed = self._stored_metadata(base)
            if len(renamed.values):
                found = renamed.only(self._of_streams(base).present).over(found)
        return found

    def _stored_metadata(self, name: str) -> Column:
        if name not in self._block.metadata_names():
            return empty_column(self.rows)
        column = self._block.metadata(name)
        return column if self._chosen is None else column.take(self._chosen)

    def column(self, kind: Kind, name: str) -> Column:
        """Returns the label of one kind."""
        columns = self._labels[kind]
        if name not in columns:
            gone = name in self._dropped or (self._kept is not None and name not in self._kept)
            if kind == "parsed" or gone:
                columns[name] = empty_column(self.rows)
            else:
                columns[name] = self.original(kind, name)
        return columns[name]

    def label(self, name: str) -> Column:
        """Returns the label, of whatever kind it is."""
        stream, metadata, parsed = (self.column(kind, name) for kind in KINDS)
        return parsed.over(metadata.over(stream))

    def put(self, kind: Kind, name: str, column: Column) -> None:
        self._labels[kind][name] = column

    def names(self, kind: Kind) -> list[str]:
        """Returns the names of all labels of the kind that some row may have."""
        made = self._labels[kind]
        if kind == "parsed":
            possible: Iterable[str] = made
        else:
            possible = {*made, *self._stored_names(kind)}
        return sorted(name for name in possible if self.column(kind, name).present.any())

    def _stored_names(self, kind: Kind) -> set[str]:
        of_streams = {name for labels in self._block.streams for name in labels}
        if kind == "stream":
            return of_streams
        names = set(self._block.metadata_names())
        return names | {name + EXTRACTED for name in names & of_streams}

    def all_names(self) -> list[str]:
        return sorted({name for kind in KINDS for name in self.names(kind)})

    def hide(self, name: str, mask: Mask | None = None) -> None:
        """Removes the label from the rows of the mask, or from all."""
        if mask is None:
            self._dropped.add(name)
            for kind in KINDS:
                self._labels[kind][name] = empty_column(self.rows)
            return
        for kind in KINDS:
            self._labels[kind][name] = self.column(kind, name).only(~mask)

    def hide_all_but(self, kept: Sequence[str]) -> None:
        """Removes all other labels. Errors stay."""
        names = {*kept, ERROR, ERROR_DETAILS}
        self._kept = names if self._kept is None else self._kept & names
        for columns in self._labels.values():
            for name in columns:
                if name not in names:
                    columns[name] = empty_column(self.rows)

    def extract(self, name: str, column: Column, *, replaces: bool = False) -> None:
        """Adds what a parser found. What an earlier parser found stays, unless this one `replaces` it.

        It hides no label of the stream and no metadata. Labels of streams count even if a stage removed them, as in
        Loki.
        """
        taken = self.original("stream", name).present | self.column("metadata", name).present
        if not taken.any():
            self._add_parsed(name, column, replaces)
            return
        self._add_parsed(name, column.only(~taken), replaces)
        self._add_parsed(name + EXTRACTED, column.only(taken), replaces)

    def _add_parsed(self, name: str, column: Column, replaces: bool = False) -> None:
        if column.present.any():
            known = self.column("parsed", name)
            self.put("parsed", name, column.over(known) if replaces else known.over(column))

    def add_empty(self, name: str, rows: Mask, *, replaces: bool = False) -> None:
        """Gives rows that do not have the label an empty one, which may take the place of what a parser found."""
        taken = self.original("stream", name).present | self.column("metadata", name).present
        if not replaces:
            taken |= self.column("parsed", name).present
        lacking = rows & ~taken
        if lacking.any():
            self._add_parsed(name, constant_column("", self.rows).only(lacking), replaces)

    def extracted(self, name: str) -> Mask:
        """Returns which rows have this label from a parser."""
        return self.column("parsed", name).present

    def fail(self, mask: Mask, error: str, details: Column | None = None, *, first_stays: bool = False) -> None:
        """Marks rows with an error, in place of one that they have unless `first_stays`."""
        new = mask & ~self.failed if first_stays else mask
        if not new.any():
            return
        column = constant_column(error, self.rows).only(new)
        self.put("parsed", ERROR, column.over(self.column("parsed", ERROR)))
        if details is not None:
            self.put("parsed", ERROR_DETAILS, details.only(new).over(self.column("parsed", ERROR_DETAILS)))

    @property
    def failed(self) -> Mask:
        return self.column("parsed", ERROR).present
