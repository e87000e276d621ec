"""Schemas that would be more than compiler and decoder can take.

Both are native code without bounds of their own: brackets within brackets overflow the compiler's stack, and a few
messages that each have the next one several times are more columns than there is memory for. Either ends the process.
"""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from frazil.errors import SchemaUnsupported
from frazil.log.schema.columns import MOST_LEVELS

MOST_BRACKETS = 1000
"""Open at once in the text, those in comments included. Twenty times as many end the process."""
MOST_FIELDS = 10_000
"""Each counted as often as it is used."""
DEEPEST = MOST_LEVELS
"""Levels of columns, as topics have them: Arrow hands over no more than 64 from one library to another."""

_BRACKETS = re.compile(r"[{\[(<]|[}\])>]")


def check_text(text: str) -> None:
    """Raises `SchemaUnsupported` before the compiler would die of it."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth = depth + 1 if found[0] in "{[(<" else max(0, depth - 1)
        if depth > MOST_BRACKETS:
            raise SchemaUnsupported(f"it has more than {MOST_BRACKETS:,} brackets within each other")


def check_size(message: Descriptor) -> None:
    """Raises `SchemaUnsupported` for more columns than the decoder can make."""
    _Count().add(message, 1, ())


class _Count:
    def __init__(self) -> None:
        self._fields = 0

    def add(self, message: Descriptor, depth: int, above: tuple[str, ...]) -> None:
        """`above` are the messages that this one is in; the decoder goes no further into one that is in itself."""
        if depth > DEEPEST:
            raise SchemaUnsupported(f"it is more than {DEEPEST} levels deep")
        inside = (*above, message.full_name)
        for field in message.fields:
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise SchemaUnsupported(
                    f"it has more than {MOST_FIELDS:,} fields, each counted as often as it is used"
                )
            inner = field.message_type
            if inner is not None and inner.full_name not in inside:
                self.add(inner, depth + _levels(field), inside)


def _levels(field: FieldDescriptor) -> int:
    """An entry of a map is a message itself."""
    return 2 if field.label == FieldDescriptor.LABEL_REPEATED else 1
