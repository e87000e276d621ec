"""What was worked out once for a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import pyarrow as pa

Result = TypeVar("Result")


class SchemaCache(Generic[Result]):
    """`make` is called once for each schema. Thread-safe as far as `make` is.

    The last schema is tried first: to compare it takes a hundredth of the time that a hash takes.
    """

    def __init__(self, make: Callable[[pa.Schema], Result]) -> None:
        self._make = make
        self._made: dict[pa.Schema, Result] = {}
        self._last: tuple[pa.Schema, Result] | None = None

    def __getitem__(self, schema: pa.Schema) -> Result:
        last = self._last
        if last is None or not last[0].equals(schema, check_metadata=True):
            self._last = last = (schema, self._find(schema))
        return last[1]

    def _find(self, schema: pa.Schema) -> Result:
        if schema not in self._made:
            self._made[schema] = self._make(schema)
        return self._made[schema]
