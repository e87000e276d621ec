"""Declares the Protobuf messages of Loki's push.

Loki's clients do not check the bytes that they send as text, and a log file may contain any. So texts are declared as
bytes, which are the same on the wire, and no request is refused for a line that is not UTF-8.
"""

from __future__ import annotations

from frazil.formats.declared_messages import message_classes

# Fields that only Loki's own processes send to each other are left out.
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
