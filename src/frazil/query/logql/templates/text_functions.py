"""Has the functions of templates that turn texts into texts."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc

from frazil.ops.short_texts import remember_short
from frazil.query.logql.regexes import RegexFault, check, groups_of, replacement_parts
from frazil.query.logql.templates.values import fail

MOST_TEXT = 1 << 20
"""No function makes a longer text of a line."""

_WORD_START = re.compile(r"(?<![\w'])\w")
_ESCAPED = re.compile(rb"%([0-9a-fA-F]{2})?")


def title(text: str) -> str:
    return _WORD_START.sub(lambda letter: letter[0].upper(), text)


def trunc(count: int, text: str) -> str:
    data = text.encode()
    if count < 0:
        return _text(data[count:]) if len(data) + count > 0 else text
    return _text(data[:count])


def substr(start: int, end: int, text: str) -> str:
    data = text.encode()
    if start < 0:
        if end < 0 or end > len(data):
            fail(f"error calling substr: runtime error: slice bounds out of range [:{end}] with length {len(data)}")
        return _text(data[:end])
    if end < 0 or end > len(data):
        end = len(data)
    if start > end:
        fail(f"error calling substr: runtime error: slice bounds out of range [{start}:{end}]")
    return _text(data[start:end])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def repeat(count: int, text: str) -> str:
    if count < 0:
        fail("error calling repeat: strings: negative Repeat count")
    if count * len(text) > MOST_TEXT:
        fail(f"error calling repeat: the text would have more than {MOST_TEXT} characters")
    return text * count


def indent(spaces: int, text: str) -> str:
    margin = repeat(spaces, " ")
    return margin + text.replace("\n", f"\n{margin}")


def align_left(count: int, text: str) -> str:
    return text[: max(count, 0)].ljust(min(count, MOST_TEXT)) if count >= 0 else text


def align_right(count: int, text: str) -> str:
    if count < 0:
        return text
    return text[len(text) - count :] if len(text) > count else text.rjust(min(count, MOST_TEXT))


def replace(text: str, old: str, new: str, count: int) -> str:
    return text.replace(old, new, count if count >= 0 else -1)


def _checked(function: str, pattern: str) -> str:
    try:
        return check(pattern)
    except RegexFault as wrong:
        fail(f"error calling {function}: {wrong}")


def regex_replace_all(pattern: str, text: str, replacement: str) -> str:
    groups = groups_of(_checked("regexReplaceAll", pattern))
    parts = replacement_parts(replacement, groups.names)
    rewrite = "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", r"\\") for part in parts)
    return _replaced(groups.pattern, text, rewrite)


def regex_replace_all_literal(pattern: str, text: str, replacement: str) -> str:
    return _replaced(_checked("regexReplaceAllLiteral", pattern), text, replacement.replace("\\", r"\\"))


@remember_short(4096)
def _replaced(pattern: str, text: str, rewrite: str) -> str:
    return str(pc.replace_substring_regex(pa.array([text]), pattern, rewrite)[0].as_py())


@remember_short(4096)
def count(pattern: str, text: str) -> int:
    return int(pc.count_substring_regex(pa.array([text]), _checked("count", pattern))[0].as_py())


def url_encode(text: str) -> str:
    return quote_plus(text, safe="~")


def url_decode(text: str) -> str:
    data = text.replace("+", " ").encode()
    for escape in _ESCAPED.finditer(data):
        if escape[1] is None:
            bad = data[escape.start() : escape.start() + 3].decode("utf-8", "replace")
            fail(f'error calling urldecode: invalid URL escape "{bad}"')
    return _text(_ESCAPED.sub(lambda escape: bytes([int(escape[1], 16)]), data))


def b64_encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def b64_decode(text: str) -> str:
    """Returns the decoded text, and for bad input a message in its place, as Loki does."""
    compact = text.replace("\n", "").replace("\r", "")
    try:
        return _text(base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True))
    except binascii.Error:
        valid = re.match(r"[A-Za-z0-9+/]*", compact)
        return f"illegal base64 data at input byte {valid.end() if valid else 0}"


_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "\0": "\ufffd"}
_JAVASCRIPT = {
    "\\": r"\\", "'": r"\'", '"': r"\"", "<": r"\u003C", ">": r"\u003E", "&": r"\u0026", "=": r"\u003D",
}  # fmt: skip


def html(text: str) -> str:
    return "".join(_HTML.get(each, each) for each in text)


def javascript(text: str) -> str:
    return "".join(_JAVASCRIPT.get(each) or (each if each.isprintable() else f"\\u{ord(each):04X}") for each in text)
