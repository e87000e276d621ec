"""The messages of Loki's push, as they are on the wire.

Loki's clients do not look at the bytes that they send as text, and a file of logs may have any. So texts are bytes
here, which are the same on the wire, and no request is refused for a line that is no UTF-8.
"""

from __future__ import annotations

from frazil.formats.declared_messages import message_classes

# What Loki's own processes tell each other is left out.
_MESSAGES = message_classes(
    "logproto",
    {
        "Timestamp": [(1, "seconds", "int64"), (2, "nanos", "int32")],
        "LabelPair": [(1, "name", "bytes"), (2, "value", "bytes")],
        "Entry": [(1, "timestamp", "Timestamp"), (2, "line", "bytes"), (3, "structured_metadata", "*LabelPair")],
        "Stream": [(1, "labels", "bytes"), (2, "entries", "*Entry")],
        "PushRequest": [(1, "streams", "*Stream")],
    },
)

PushRequest = _MESSAGES["PushRequest"]
