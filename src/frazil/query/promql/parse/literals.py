"""Reads and prints numbers, durations and strings as PromQL writes them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
UNITS_MS = (365 * 86_400_000, 7 * 86_400_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
UNIT_NAMES = ("y", "w", "d", "h", "m", "s", "ms")
# Go keeps durations as nanoseconds in 64 bits.
LONGEST_MS = (2**63 - 1) // 1_000_000
ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34}
PRINTED_ESCAPES = {7: r"\a", 8: r"\b", 12: r"\f", 10: r"\n", 13: r"\r", 9: r"\t", 11: r"\v", 92: r"\\", 34: r"\""}
LEGACY_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
LEGACY_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)


def parse_number(text: str) -> float | None:
    """Reads a number: first as an integer with Go's bases, then as a float. None when it is neither."""
    lower = text.lower().lstrip("+-")
    sign = -1.0 if text.startswith("-") else 1.0
    if lower in ("inf", "nan"):
        return sign * float(lower)
    plain = lower.replace("_", "")
    if plain.startswith("0x"):
        digits = plain[2:]
        return sign * float(int(digits, 16)) if digits and all(c in "0123456789abcdef" for c in digits) else None
    if re.fullmatch(r"0[0-7]+", plain) and int(plain, 8) < 2**63:
        return sign * float(int(plain, 8))
    try:
        value = sign * float(plain)
    except ValueError:
        return None
    return None if math.isinf(value) else value


def parse_duration_ms(text: str) -> int:
    """Reads `1h30m` and the like as milliseconds; a `ValueError` says, in Prometheus's words, why it cannot."""
    if text == "0":
        return 0
    if not text:
        raise ValueError("empty duration string")
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        for unit in re.findall(r"\d+(\D+)", text):
            if unit not in UNIT_NAMES:
                raise ValueError(f"unknown unit {quote(unit)} in duration {quote(text)}")
        raise ValueError(f"not a valid duration string: {quote(text)}")
    total = sum(int(count) * unit for count, unit in zip(found.groups(), UNITS_MS, strict=True) if count)
    if total > LONGEST_MS:
        raise ValueError("duration out of range")
    return total


def milliseconds(seconds: float) -> int:
    """Returns whole milliseconds: rounded to nanoseconds as Go keeps them, then cut."""
    nanoseconds = round(seconds * 1e9)
    return nanoseconds // 1_000_000 if nanoseconds >= 0 else -(-nanoseconds // 1_000_000)


def print_duration(milliseconds: int) -> str:
    """Prints a duration with the largest units: years, weeks and days only where nothing remains."""
    if milliseconds == 0:
        return "0s"
    rest, text = abs(milliseconds), ""
    for unit, name in zip(UNITS_MS, UNIT_NAMES, strict=True):
        exact = name in ("y", "w")
        if exact and rest % unit:
            continue
        count = rest // unit
        if count:
            text += f"{count}{name}"
            rest -= count * unit
    return "-" + text if milliseconds < 0 else text


def print_number(value: float) -> str:
    """Prints a float in plain decimal, as short as it can be read back."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(Decimal(repr(value)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text


def unquote(token: str) -> str:
    """Returns the value of a string token. Bytes that are no UTF-8 become surrogate escapes."""
    body = token[1:-1]
    if token[0] == "`":
        return body.replace("\r", "")
    if "\\" not in body:
        return body
    out = bytearray()
    at = 0
    while at < len(body):
        char = body[at]
        if char != "\\":
            out += char.encode("utf-8", "surrogateescape")
            at += 1
            continue
        kind = body[at + 1]
        if kind in ESCAPES:
            out.append(ESCAPES[kind])
            at += 2
        elif kind == "x":
            out.append(int(body[at + 2 : at + 4], 16))
            at += 4
        elif kind in "uU":
            length = 4 if kind == "u" else 8
            out += chr(int(body[at + 2 : at + 2 + length], 16)).encode()
            at += 2 + length
        else:
            out.append(int(body[at + 1 : at + 4], 8))
            at += 4
    return out.decode("utf-8", "surrogateescape")


def quote(value: str) -> str:
    """Prints a string in double quotes, with Go's escapes."""
    out = []
    for char in value:
        code = ord(char)
        if code in PRINTED_ESCAPES:
            out.append(PRINTED_ESCAPES[code])
        elif 0xDC80 <= code <= 0xDCFF:
            out.append(f"\\x{code - 0xDC00:02x}")
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\x{code:02x}")
        elif char.isprintable() or char == " ":
            out.append(char)
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def print_label(name: str) -> str:
    """Prints a label's name, in quotes when it is more than an identifier."""
    return name if LEGACY_LABEL.fullmatch(name) else quote(name)
