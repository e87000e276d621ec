"""Names the types of expressions."""

from __future__ import annotations

from enum import StrEnum


class ValueType(StrEnum):
    """Is the type of an expression, as messages call it."""

    NONE = "none"
    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"

    @property
    def internal(self) -> str:
        """The short name, which a few messages use."""
        return {"instant vector": "vector", "range vector": "matrix"}.get(self.value, self.value)
