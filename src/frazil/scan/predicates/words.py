"""Lists the words of the language of conditions."""

from __future__ import annotations

_SIGNS = frozenset(("and", "or", "not", "in", "is", "null", "nan", "between", "like", "true", "false"))
_PHRASES = frozenset(("starts", "with", "contains", "ignoring", "case", "fully", "matches"))

RESERVED = _SIGNS | _PHRASES
"""A column with such a name is written in double quotes."""
