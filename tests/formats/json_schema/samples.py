"""What tests beside this share."""

from __future__ import annotations

EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "price": {"type": "number"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "anything": {},
    },
    "definitions": {"line": {"type": "object", "properties": {"item": {"type": "string"}}}},
}
