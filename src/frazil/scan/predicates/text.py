"""Parses conditions that people write, such as `amount > 10 and tags['country'] = 'de'`.

| written | meaning |
|---|---|
| `a = 1`, `==`, `!=`, `<>`, `<`, `<=`, `>`, `>=`, `1 < a` | comparisons |
| `a between 1 and 2` | `a >= 1 and a <= 2` |
| `a in (1, 2)`, `a is null`, `a is nan` | |
| `a starts with 'x'`, `a like 'x%'` | text that begins with `x` |
| `a contains 'x'`, `a contains 'x' ignoring case` | text with `x` in it |
| `a matches 'x.*'`, `a fully matches 'x.*'` | a regular expression (RE2) |
| `a not in (1)`, `a is not null`, `a not like 'x%'`, … | their negations |
| `not`, `and`, `or`, `true`, `false`, parentheses | |

Columns: `a`, `part.x` for a field of a struct, `tags['k']` for what a map has under a key, `"any name"`.
Values: `1`, `1.5`, `'text'`, where `''` is a quote, `true`; where the type is to be exact, `double '1.5'`,
`decimal '2'`, `date '2024-01-31'`, `time '12:30:00'`, `timestamp '2024-01-31T12:30:00Z'`, `x'00ff'`. Text becomes the
type of its column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from math import inf
from typing import NamedTuple

from frazil.errors import CallError
from frazil.scan.predicates.simplify import FALSE, TRUE
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    IsNull,
    MapValue,
    Matches,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Term,
    Value,
)
from frazil.scan.predicates.words import RESERVED

_DEEPEST = 100
"""Parentheses and `not` can be nested as deeply as this."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<name>(?:[^\W\d]\w*|"(?:[^"]|"")+")(?:\.(?:[^\W\d][\w]*|"(?:[^"]|"")+"))*)
      | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),\[\]])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_LIKE = re.compile(r"(?P<text>(?:[^\\%]|\\.)*)(?P<rest>%?)", re.DOTALL)
_OPERATORS: dict[str, Operator] = {
    "=": "==",
    "==": "==",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_TURNED: dict[Operator, Operator] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TYPED: dict[str, Callable[[str], Value]] = {
    "double": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "x": bytes.fromhex,
}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_where(text: str) -> Predicate:
    """Raises `CallError`, which says where, if the text cannot be read."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._cut()
        self._next = 0
        self._depth = 0

    def whole(self) -> Predicate:
        found = self._either()
        if self._peek().kind != "end":
            raise self._error("and, or, or the end")
        return found

    def _cut(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                raise _cannot_be_read(self._text, at, "something else")
            kind = match.lastgroup
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        return tokens

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._took("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self) -> Predicate:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"fewer than {_DEEPEST} parentheses or `not` within each other")
        found = self._nested()
        self._depth -= 1
        return found

    def _nested(self) -> Predicate:
        if self._took("not"):
            return Not(self._one())
        if self._took("("):
            found = self._either()
            self._expect(")")
            return found
        if self._word() in ("true", "false") and not self._compares(1):
            return TRUE if self._take().text.lower() == "true" else FALSE
        if (value := self._value()) is not None:
            operator = _TURNED[self._operator()]
            return Comparison(self._term(), operator, value)
        return self._condition(self._term())

    def _condition(self, term: Term) -> Predicate:
        if self._compares(0):
            return Comparison(term, self._operator(), self._some_value())
        if self._took("is"):
            negated = self._took("not")
            return self._is(term, negated)
        negated = self._took("not")
        found = self._about(term)
        return Not(found) if negated else found

    def _is(self, term: Term, negated: bool) -> Predicate:
        if self._took("null"):
            return Not(IsNull(term)) if negated else IsNull(term)
        if self._took("nan"):
            # All numbers are at most infinite, but NaN is not.
            number = Comparison(term, "<=", inf)
            return number if negated else Not(number)
        raise self._error("null or nan")

    def _about(self, term: Term) -> Predicate:
        if self._took("in"):
            return In(term, self._values())
        if self._took("between"):
            least = self._some_value()
            self._expect("and")
            return And((Comparison(term, ">=", least), Comparison(term, "<=", self._some_value())))
        if self._took("like"):
            return self._like(term)
        if self._took("starts"):
            self._expect("with")
            return StartsWith(term, self._some_text())
        if self._took("contains"):
            text = self._some_text()
            ignore_case = self._took("ignoring")
            if ignore_case:
                self._expect("case")
            return Contains(term, text, ignore_case)
        if self._took("matches"):
            return Matches(term, self._some_text())
        if self._took("fully"):
            self._expect("matches")
            return Matches(term, self._some_text(), anchored=True)
        raise self._error("a comparison, is, in, between, like, starts with, contains or matches")

    def _like(self, term: Term) -> Predicate:
        pattern = self._some_text()
        match = _LIKE.fullmatch(pattern)
        if match is None:
            raise CallError(
                f"like {pattern!r}: % is possible at the end only. Take `contains`, or `matches` with a regular "
                "expression."
            )
        text = re.sub(r"\\(.)", r"\1", match["text"], flags=re.DOTALL)
        return StartsWith(term, text) if match["rest"] else Comparison(term, "==", text)

    def _values(self) -> frozenset[Value]:
        self._expect("(")
        found = set()
        while not self._took(")"):
            found.add(self._some_value())
            if self._peek().text != ")":
                self._expect(",")
        return frozenset(found)

    def _term(self) -> Term:
        token = self._peek()
        if token.kind != "name" or token.text.lower() in RESERVED:
            raise self._error("a column")
        self._take()
        name = ".".join((quoted or plain).replace('""', '"') for quoted, plain in _NAME_PART.findall(token.text))
        if not self._took("["):
            return Column(name)
        key = self._some_text()
        self._expect("]")
        return MapValue(name, key)

    def _some_text(self) -> str:
        if self._peek().kind != "text":
            raise self._error("text in single quotes")
        return _unquoted(self._take().text)

    def _some_value(self) -> Value:
        found = self._value()
        if found is None:
            raise self._error("a value")
        return found

    def _value(self) -> Value | None:
        """Returns the value that comes next, or None if it is none."""
        kind, text, _ = self._peek()
        if kind == "text":
            return self._some_text()
        if kind == "number":
            self._take()
            return int(text) if re.fullmatch(r"[-+]?\d+", text) else Decimal(text)
        if text.lower() in ("true", "false"):
            self._take()
            return text.lower() == "true"
        following = self._tokens[self._next + 1] if kind == "name" else None
        if following is not None and following.kind == "text" and text.lower() in _TYPED:
            self._take()
            given = _unquoted(following.text)
            try:
                value = _TYPED[text.lower()](given)
            except (ValueError, InvalidOperation) as error:
                raise _cannot_be_read(self._text, following.at, f"a {text.lower()}") from error
            self._take()
            return value
        return None

    def _operator(self) -> Operator:
        if not self._compares(0):
            raise self._error("a comparison")
        return _OPERATORS[self._take().text]

    def _compares(self, ahead: int) -> bool:
        token = self._tokens[min(self._next + ahead, len(self._tokens) - 1)]
        return token.kind == "sign" and token.text in _OPERATORS

    def _word(self) -> str:
        return self._peek().text.lower()

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _took(self, word: str) -> bool:
        """Takes the next word or sign if it is this one."""
        token = self._peek()
        if token.kind not in ("name", "sign") or token.text.lower() != word:
            return False
        self._next += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise self._error(word)

    def _error(self, wanted: str) -> CallError:
        return _cannot_be_read(self._text, self._peek().at, wanted)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _cannot_be_read(text: str, at: int, wanted: str) -> CallError:
    found = f"at character {at + 1}, {text[at : at + 20]!r}" if at < len(text) else "at the end"
    return CallError(f"{text!r} cannot be read as a condition on columns: expected {wanted} {found}.")
