"""Infers the types of JSON lines, and reads their records.

A file is read twice: first to learn the types and to find bad lines, so that nothing is appended of a file that
cannot be appended whole, and then for its records. What comes through a pipe is learnt as it arrives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa

from frazil.errors import FrazilError, RecordTooLarge, SchemaMismatch, SerializationError
from frazil.formats.json.parsing import BadJson, Unexpected
from frazil.formats.json.type_inference import Conflict, known_columns, widen
from frazil.load.inputs import Input, InputBatch
from frazil.load.json_blocks import Lines, blocks, parse
from frazil.log.schema.columns import check_columns

ESCAPED = 6
"""The most bytes of JSON for one byte of a string (`\\u0041`)."""
INFER_BYTES = 64 * 1024
"""The bytes of text whose columns are learnt at once: each new column takes space in the rows of all lines."""


class JsonLines:
    def __init__(self, source: Input, limit: int, most_columns: int, *, skip_bad: bool) -> None:
        """`limit` is the most bytes of one append, and `most_columns` the most columns of the topic."""
        self.source = source
        self.bad = 0
        """The number of lines that were left out."""
        self.first_bad: str | None = None
        self.unknown: set[str] = set()
        """The columns of the stream that were only null or empty, at least for a while."""
        self._limit = limit
        self._most_columns = most_columns
        self._skip_bad = skip_bad

    def learn(self, fixed: pa.Schema, on_read: Callable[[int], None] = lambda _: None) -> pa.Schema:
        """Returns `fixed` with the columns found beside it; columns of unknown type have Arrow's type `null`."""
        known = fixed
        for lines in self._blocks():
            known = self._learn(lines, fixed, known)
            on_read(lines.read)
        return known

    def batches(self, schema: pa.Schema, unexpected: Unexpected, skip: int) -> Iterator[InputBatch]:
        """Yields the records from line `skip` + 1 on, with exactly this schema."""
        for lines in self._blocks():
            if lines.end - 1 > skip:
                yield from self._batches(_after(lines, skip), schema, unexpected)

    def stream(self, fixed: pa.Schema) -> Iterator[InputBatch]:
        """Yields the records as they arrive, each block with the columns known by then."""
        for lines in self._blocks(eager=True):
            fixed, unknown = known_columns(self._learn(lines, fixed, fixed))
            self.unknown.update(unknown)
            yield from self._batches(lines, fixed, "ignore")

    def _blocks(self, *, eager: bool = False) -> Iterator[Lines]:
        try:
            with self.source.open() as data:
                yield from blocks(data, self.source.name, ESCAPED * self._limit, eager=eager)
        except OSError as error:
            raise SerializationError(f"{self.source.name} cannot be read: {error}.") from error

    def _learn(self, lines: Lines, fixed: pa.Schema, known: pa.Schema) -> pa.Schema:
        if self._brings_nothing(lines, known):
            return known
        halves = lines.halves()
        if halves is None or len(lines.text) <= INFER_BYTES:
            try:
                return self._grown(known, parse(lines.text, fixed, "infer").schema)
            except (BadJson, Conflict, RecursionError) as error:
                if halves is None:
                    self._refuse(lines, error)
                    return known
            except SchemaMismatch as error:
                if halves is None:
                    # If the line were left out, its other columns would be missing, though nothing is wrong with
                    # them.
                    raise SchemaMismatch(f"{self.source.name}, line {lines.first}: {error}") from error
        left, right = halves
        return self._learn(right, fixed, self._learn(left, fixed, known))

    def _brings_nothing(self, lines: Lines, known: pa.Schema) -> bool:
        """Returns whether all lines have known columns of known types."""
        if not len(known):
            return False
        try:
            parse(lines.text, known, "error")
        except (BadJson, SerializationError, RecursionError):
            return False
        return True

    def _grown(self, known: pa.Schema, found: pa.Schema) -> pa.Schema:
        grown = widen(known, found)
        if not grown.equals(known):
            check_columns(grown, self._most_columns, known)
        return grown

    def _batches(self, lines: Lines, schema: pa.Schema, unexpected: Unexpected) -> Iterator[InputBatch]:
        halves = None
        try:
            batch = parse(lines.text, schema, unexpected)
        except BadJson as error:
            halves = lines.halves()
            if halves is None:
                reason = _name_extra(lines, schema, error) if unexpected == "error" else error
                self._refuse(lines, reason)
                self._count(lines, reason)
                return
        else:
            if batch.nbytes <= self._limit:
                if batch.num_rows:
                    yield InputBatch(batch, lines.end - 1, lines.read)
                return
            halves = lines.halves()
            if halves is None:
                raise RecordTooLarge(
                    f"{self.source.name}, line {lines.first}: {batch.nbytes:,} bytes are over the limit of "
                    f"{self._limit:,} for one append (`log.max_append_mb`)."
                )
        for half in halves:
            yield from self._batches(half, schema, unexpected)

    def _refuse(self, lines: Lines, error: Exception) -> None:
        if not self._skip_bad:
            raise self._told(lines, error)

    def _count(self, lines: Lines, error: Exception) -> None:
        self.bad += 1
        self.first_bad = self.first_bad or str(self._told(lines, error))

    def _told(self, lines: Lines, error: Exception) -> FrazilError:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        if column := _broken_at(lines.text):
            why = f"not JSON: {why}, at column {column}"
        return SerializationError(f"{self.source.name}, line {lines.first}: {why}.")


def _broken_at(text: bytes) -> int | None:
    """Returns the column at which an object stops being JSON, which Arrow does not say."""
    try:
        json.loads(text.strip())
    except json.JSONDecodeError as error:
        begins = text.lstrip().startswith(b"{") and error.msg != "Extra data"
        return error.pos + 1 + len(text) - len(text.lstrip()) if begins else None
    except (ValueError, RecursionError):
        return None
    return None


def _name_extra(lines: Lines, schema: pa.Schema, error: BadJson) -> BadJson:
    """Returns the error with the name of the unexpected column, which Arrow does not say."""
    try:
        extra = sorted(set(json.loads(lines.text)) - set(schema.names))
    except (ValueError, RecursionError):
        return error
    return BadJson(f"the schema given has no column {', '.join(map(repr, extra))}") if extra else error


def _after(lines: Lines, skip: int) -> Lines:
    """Returns the lines of a block that come after line `skip`."""
    if lines.first > skip:
        return lines
    at = 0
    for _ in range(skip - lines.first + 1):
        at = lines.text.index(b"\n", at) + 1
    return Lines(skip + 1, lines.text[at:], lines.read)
