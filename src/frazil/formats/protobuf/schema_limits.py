"""Refuses schemas that the native compiler or decoder cannot handle.

Neither of them has limits of its own: brackets within brackets overflow the compiler's stack, and a few messages that
each contain the next one several times are more columns than there is memory for. Either ends the process.
"""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from frazil.errors import SchemaUnsupported
from frazil.log.schema.columns import MOST_LEVELS

MOST_BRACKETS = 1000
"""The most brackets that may be open at once in the text, including those in comments. Twenty times as many end the
process."""
MOST_FIELDS = 10_000
"""The most fields, each counted as often as it is used."""
DEEPEST = MOST_LEVELS
"""The most levels of columns, the same as for topics. Arrow passes no more than 64 from one library to another."""

_BRACKETS = re.compile(r"[{\[(<]|[}\])>]")


def check_text(text: str) -> None:
    """Raises `SchemaUnsupported` for a text that would overflow the compiler's stack."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth = depth + 1 if found[0] in "{[(<" else max(0, depth - 1)
        if depth > MOST_BRACKETS:
            raise SchemaUnsupported(f"it has more than {MOST_BRACKETS:,} brackets within each other")


def check_size(message: Descriptor) -> None:
    """Raises `SchemaUnsupported` if the message has more columns than the decoder can make."""
    _Count().add(message, 1, ())


class _Count:
    def __init__(self) -> None:
        self._fields = 0

    def add(self, message: Descriptor, depth: int, above: tuple[str, ...]) -> None:
        """Counts the fields of a message. `above` has the messages around it; the decoder does not descend into a
        message that is inside itself."""
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
    """Returns by how many levels a field is deeper. An entry of a map is a message of its own."""
    return 2 if field.label == FieldDescriptor.LABEL_REPEATED else 1
