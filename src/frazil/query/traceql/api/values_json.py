"""Writes values of spans as JSON of OTLP's `AnyValue`."""

from __future__ import annotations

from typing import Any

from frazil.query.traceql.api.replies import number
from frazil.query.traceql.engine.comparing import elements
from frazil.query.traceql.engine.values import Column, Kind
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import Static

Json = dict[str, Any]


def value_json(value: Static) -> Json:
    """Writes a literal: what is neither a number nor true or false is a text."""
    match value.type, value.value:
        case Type.INT, int(whole):
            return {"intValue": str(whole)}
        case Type.FLOAT, float(broken):
            return {"doubleValue": number(broken)}
        case Type.BOOLEAN, truth:
            return {"boolValue": bool(truth)}
        case Type.STRING, text:
            return {"stringValue": text}
    return {"stringValue": str(value)}


def pair_json(key: str, value: Static) -> Json:
    return {"key": key, "value": value_json(value)}


def field_json(column: Column, row: int) -> Json | None:
    """Writes the value of one row; None if it is nil."""
    place = row if column.codes is None else int(column.codes[row])
    if place < 0:
        return None
    values = column.values
    if values.kinds[place] == Kind.ARRAY:
        return {"arrayValue": {"values": [_element(each) for each in elements(values.texts[place].as_py())]}}
    static = values.static(place)
    return None if static.value is None else value_json(static)


def _element(value: Any) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": number(value)}
    return {"stringValue": value}
