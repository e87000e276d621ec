"""Damages valid requests: as bytes, as Protobuf messages, and as JSON. All choices come from one seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

VARINT, FIXED64, SIZED, GROUP, GROUP_END, FIXED32 = range(6)
_DEPTHS = (1, 3, 40, 99, 100, 101, 300, 5_000, 120_000)
_COUNTS = (1, 2, 3, 10, 300)
_NUMBERS = (0, 1, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_BYTES = (0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x0B, 0x0C, 0x7B, 0x22, 0x5B, 0x7D)
_DEEPEST = 12
"""A mutation goes down at most this many levels."""

Chance = random.Random


# --- bytes -----------------------------------------------------------------------------------------------------


def damaged(chance: Chance, body: bytes, other: bytes) -> bytes:
    """Damages bytes without regard to their meaning. `other` is another valid body."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        body = chance.choice(_DAMAGES)(chance, body, other)
    return body


def scratched(chance: Chance, body: bytes) -> bytes:
    """Changes bytes here and there, and leaves all others where they are."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        body = chance.choice((_flip, _overwrite))(chance, body, b"")
    return body


def _flip(chance: Chance, body: bytes, _: bytes) -> bytes:
    found = bytearray(body)
    for _bit in range(chance.choice((1, 1, 2, 8))):
        if found:
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def _overwrite(chance: Chance, body: bytes, _: bytes) -> bytes:
    found = bytearray(body)
    if found:
        found[chance.randrange(len(found))] = chance.choice(_BYTES)
    return bytes(found)


def _truncate(chance: Chance, body: bytes, _: bytes) -> bytes:
    return body[: chance.randrange(len(body) + 1)]


def _insert(chance: Chance, body: bytes, _: bytes) -> bytes:
    at = chance.randrange(len(body) + 1)
    more = chance.choice((chance.randbytes(chance.choice((1, 2, 9, 40))), bytes([chance.choice(_BYTES)]) * 20))
    return body[:at] + more + body[at:]


def _delete(chance: Chance, body: bytes, _: bytes) -> bytes:
    start, end = _chunk(chance, body)
    return body[:start] + body[end:]


def _repeat(chance: Chance, body: bytes, _: bytes) -> bytes:
    start, end = _chunk(chance, body)
    return body[:end] + body[start:end] * chance.choice((1, 1, 3, 50)) + body[end:]


def _splice(chance: Chance, body: bytes, other: bytes) -> bytes:
    return body[: chance.randrange(len(body) + 1)] + other[chance.randrange(len(other) + 1) :]


def _transplant(chance: Chance, body: bytes, other: bytes) -> bytes:
    start, end = _chunk(chance, other)
    at = chance.randrange(len(body) + 1)
    return body[:at] + other[start:end] + body[at:]


def _chunk(chance: Chance, body: bytes) -> tuple[int, int]:
    start = chance.randrange(len(body) + 1)
    return start, min(len(body), start + chance.choice((1, 2, 4, 16, 100)))


_DAMAGES: Sequence[Callable[[Chance, bytes, bytes], bytes]] = (
    *(_flip, _flip, _overwrite, _truncate, _insert, _delete, _repeat, _splice, _transplant),
)


# --- messages of Protobuf --------------------------------------------------------------------------------------


class Field(NamedTuple):
    number: int
    wire: int
    value: bytes
    """The value as it is on the wire, but without its length."""


def varint(number: int, longer: int = 0) -> bytes:
    """Encodes a number in `longer` more bytes than it needs."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    for _ in range(longer):
        found[-1] |= 0x80
        found.append(0)
    return bytes(found)


def written(fields: Sequence[Field]) -> bytes:
    return b"".join(_written(field) for field in fields)


def _written(field: Field) -> bytes:
    size = varint(len(field.value)) if field.wire == SIZED else b""
    return varint(field.number << 3 | field.wire) + size + field.value


def fields_of(body: bytes) -> list[Field] | None:
    """Returns the fields of a message, or None if the bytes are no message."""
    found = []
    at = 0
    while at < len(body):
        tag, at = _read(body, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            _, end = _read(body, at)
        elif wire == SIZED:
            size, at = _read(body, at)
            end = at + size
        elif wire in (FIXED64, FIXED32):
            end = at + (8 if wire == FIXED64 else 4)
        else:
            return None
        if not number or end > len(body):
            return None
        found.append(Field(number, wire, body[at:end]))
        at = end
    return found


def _read(body: bytes, at: int) -> tuple[int, int]:
    """Reads a number, and where it ends: beyond the body if the body ends first."""
    value = shift = 0
    while at < len(body) and shift < 64:
        value |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
        if body[at - 1] < 0x80:
            return value, at
    return 0, len(body) + 1


def message(chance: Chance, body: bytes, other: bytes) -> bytes:
    """Returns a message with something wrong, or odd, at some level."""
    return _within(chance, body, other, _DEEPEST)


def _within(chance: Chance, body: bytes, other: bytes, left: int) -> bytes:
    fields = fields_of(body)
    if not fields:
        return damaged(chance, body, other)
    inner = [place for place, field in enumerate(fields) if field.wire == SIZED and fields_of(field.value)]
    if inner and left and chance.random() < 0.75:
        place = chance.choice(inner)
        field = fields[place]
        fields[place] = field._replace(value=_within(chance, field.value, other, left - 1))
        return written(fields)
    place = chance.randrange(len(fields))
    before, after = written(fields[:place]), written(fields[place + 1 :])
    return before + chance.choice(_CHANGES)(chance, fields[place], other) + after


def _many(chance: Chance, field: Field, _: bytes) -> bytes:
    return _written(field) * chance.choice(_COUNTS)


def _gone(chance: Chance, field: Field, _: bytes) -> bytes:
    return b""


def _renumbered(chance: Chance, field: Field, _: bytes) -> bytes:
    return _written(field._replace(number=chance.choice((0, 1, 2, 3, 5, 15, 16, 2**28, 2**29 - 1, 2**29, 2**60))))


def _other_wire(chance: Chance, field: Field, _: bytes) -> bytes:
    return varint(field.number << 3 | chance.randrange(8)) + varint(len(field.value)) + field.value


def _lying(chance: Chance, field: Field, _: bytes) -> bytes:
    """Writes a field with a wrong length."""
    size = len(field.value)
    length = chance.choice(
        (size + 1, size + 200, max(0, size - 1), size // 2, *_NUMBERS, 2**64 - chance.randrange(30))
    )
    return varint(field.number << 3 | SIZED) + varint(length) + field.value


def _longer(chance: Chance, field: Field, _: bytes) -> bytes:
    """Writes numbers with more bytes than they need."""
    tag = varint(field.number << 3 | field.wire, chance.choice((0, 1, 3, 4, 8)))
    size = varint(len(field.value), chance.choice((1, 4, 8, 9))) if field.wire == SIZED else b""
    return tag + size + field.value


def _grouped(chance: Chance, field: Field, _: bytes) -> bytes:
    """Writes a field inside groups, which may not end."""
    depth, number = chance.choice(_DEPTHS), chance.choice((field.number, 15, 16, 2**29 - 1))
    begin, end = varint(number << 3 | GROUP), varint(number << 3 | GROUP_END)
    inner = _written(field) if chance.random() < 0.5 else b""
    return begin * depth + inner + end * chance.choice((depth, depth, depth - 1, depth + 1, 0))


def _nested(chance: Chance, field: Field, _: bytes) -> bytes:
    """Nests a field in itself many times."""
    value = field.value
    for _level in range(chance.choice(_DEPTHS[:7])):
        value = _written(Field(field.number, SIZED, value))
    return value


def _valued(chance: Chance, field: Field, _: bytes) -> bytes:
    if field.wire == VARINT:
        return _written(field._replace(value=varint(chance.choice(_NUMBERS))))
    size = {FIXED64: 8, FIXED32: 4}.get(field.wire, chance.choice((0, 1, 7, 8, 16, 300)))
    return _written(field._replace(value=chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))))


def _of_other(chance: Chance, field: Field, other: bytes) -> bytes:
    return _written(field._replace(wire=SIZED, value=other))


def _scrambled(chance: Chance, field: Field, other: bytes) -> bytes:
    return _written(field._replace(value=damaged(chance, field.value, other)))


def _endless(chance: Chance, field: Field, _: bytes) -> bytes:
    """Writes numbers of more than ten bytes."""
    return (
        varint(field.number << 3 | VARINT)
        + b"\xff" * chance.choice((9, 10, 11, 40))
        + bytes([chance.choice((0, 1, 0x7F))])
    )


_CHANGES: Sequence[Callable[[Chance, Field, bytes], bytes]] = (
    *(_many, _gone, _renumbered, _other_wire, _lying, _lying, _longer, _grouped, _nested, _valued, _valued),
    *(_of_other, _scrambled, _scrambled, _endless),
)


# --- JSON ------------------------------------------------------------------------------------------------------


def json_text(chance: Chance, body: bytes, other: bytes) -> bytes:
    """Returns JSON with an unexpected value somewhere."""
    try:
        value, more = json.loads(body), json.loads(other)
    except ValueError:
        return damaged(chance, body, other)
    text = json.dumps(_changed(chance, value, more), ensure_ascii=chance.random() < 0.8)
    for standing, meant in _STANDINS.items():
        text = text.replace(standing, meant(chance))
    return text.encode("utf-8", "surrogatepass")


def _changed(chance: Chance, value: Any, other: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(sorted(value))
        match chance.randrange(12):
            case 0:
                return {**value, name: other}
            case 1:
                return {each: found for each, found in value.items() if each != name}
            case 2:
                return {(chance.choice(_TEXTS) if each == name else each): found for each, found in value.items()}
            case 3:
                return {**value, chance.choice(_TEXTS): value[name]}
        return {**value, name: _changed(chance, value[name], other)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        match chance.randrange(8):
            case 0:
                return value * chance.choice((2, 10, 300))
            case 1:
                return [*value[:place], chance.choice(_VALUES), *value[place:]]
        return [*value[:place], _changed(chance, value[place], other), *value[place + 1 :]]
    return chance.choice((*_VALUES, [value], {"a": value}, other, str(value)))


_TEXTS = ("", "a", "\0", "\ud800", "é" * 50, "x" * 5000, "_offset", "null", "-1", "NaN", "9" * 30)
_VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, float("inf"), float("nan")),
    *([], {}, [[]], [None], {"": None}, *_TEXTS, "<deep list>", "<deep object>", "<long number>", "<twice>"),
)
_STANDINS: dict[str, Callable[[Chance], str]] = {
    '"<deep list>"': lambda chance: "[" * (depth := chance.choice(_DEPTHS)) + "]" * chance.choice((depth, depth, 0)),
    '"<deep object>"': lambda chance: '{"a":' * (depth := chance.choice(_DEPTHS)) + "1" + "}" * depth,
    '"<long number>"': lambda chance: "1" * chance.choice((20, 400, 5000, 50_000)),
    '"<twice>"': lambda chance: '{"a": 1, "a": [2], "A": 3}',
}
"""Python's `json` would not write these values."""
