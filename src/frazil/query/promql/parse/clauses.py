"""Reads what stands inside expressions: matchers, groupings, matchings, durations; and words the errors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from frazil.query.promql.parse.lexer import tokens
from frazil.query.promql.parse.literals import parse_duration_ms, parse_number, quote, unquote
from frazil.query.promql.parse.regex import regex_problem
from frazil.query.promql.parse.tokens import DURATION_FUNCTIONS, FILLS, PRECEDENCE, UNARY_BINDS, Kind, Token
from frazil.query.promql.parse.tree import (
    METRIC_NAME,
    Boundary,
    Duration,
    DurationExpression,
    Matcher,
    Matching,
    MatchOp,
    Node,
    NumberLiteral,
)
from frazil.query.promql.problems import ParseError

MATCH_OPS: dict[str, MatchOp] = {"=": "=", "!=": "!=", "=~": "=~", "!~": "!~"}
ARITHMETIC = frozenset(["+", "-", "*", "/", "%", "^"])
# Where a duration stands, and what may stand there.
OFFSET = ("offset", "number, duration, step(), or range()")
RANGE = ("subquery or range selector", "number, duration, step(), or range()")
STEP = ("subquery selector", 'number, duration, step(), range(), or "]"')
LONGEST_SECONDS = (2**63 - 1) / 1e9
LATEST_SECONDS = 2**63 / 1000


class Clauses:
    """Walks over the tokens of a query, one in sight and, where a word may be a name, one more."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stream: Iterator[Token] = tokens(text)
        self.token = next(self.stream)
        self.following: Token | None = None
        self.last_end = 0
        self.open_aggregations = 0
        self.duration_context = OFFSET

    def advance(self) -> Token:
        """Returns the token in sight and moves on."""
        token = self.token
        if token.kind == Kind.ERROR:
            raise self.fail(token.text, token.at)
        self.last_end = token.end
        self.token = self.following or next(self.stream, Token(Kind.END, "", len(self.text)))
        self.following = None
        return token

    def next_token_is(self, *texts: str) -> bool:
        if self.following is None:
            self.following = next(self.stream, Token(Kind.END, "", len(self.text)))
        return any(self.following.is_(text) for text in texts)

    def expect(self, text: str, context: str = "", expected: str = "") -> Token:
        if not self.token.is_(text):
            raise self.unexpected(context, expected)
        return self.advance()

    def fail(self, message: str, at: int) -> ParseError:
        before = self.text[:at]
        line_start = before.rfind("\n") + 1
        column = len(before[line_start:].encode("utf-8", "surrogateescape")) + 1
        return ParseError(message, before.count("\n") + 1, column)

    def unplaced(self, message: str) -> ParseError:
        return ParseError(message)

    def unexpected(self, context: str, expected: str) -> ParseError:
        token = self.token
        if token.kind == Kind.ERROR:
            return self.fail(token.text, token.at)
        if not context and self.open_aggregations:
            context = "aggregation"
        message = f"unexpected {token}"
        message += f" in {context}" if context else ""
        message += f", expected {expected}" if expected else ""
        return self.fail(message, token.at)

    def number_literal(self, token: Token) -> NumberLiteral:
        if token.kind == Kind.DURATION:
            return NumberLiteral(self.duration_seconds(token), duration=True, start=token.at, end=token.end)
        value = parse_number(token.text)
        if value is None:
            reason = "value out of range" if token.text[-1:].isdigit() else "invalid syntax"
            text = f"error parsing number: strconv.ParseFloat: parsing {quote(token.text)}: {reason}"
            raise self.fail(text, token.at)
        return NumberLiteral(value, start=token.at, end=token.end)

    def duration_seconds(self, token: Token) -> float:
        try:
            return parse_duration_ms(token.text) / 1000
        except ValueError as error:
            raise self.fail(str(error), token.at) from None

    def matchers(self) -> tuple[list[Matcher], int]:
        """Reads matchers in braces; returns them and where the braces end."""
        self.advance()
        found: list[Matcher] = []
        while not self.token.is_("}"):
            found.append(self.matcher())
            if self.token.is_(","):
                self.advance()
            elif not self.token.is_("}"):
                raise self.unexpected("label matching", '"," or "}"')
        return found, self.advance().end

    def matcher(self) -> Matcher:
        token = self.token
        if token.kind not in (Kind.IDENTIFIER, Kind.STRING):
            raise self.unexpected("label matching", 'identifier or "}"')
        self.advance()
        name = unquote(token.text) if token.kind == Kind.STRING else token.text
        operator = self.token
        if operator.kind != Kind.OPERATOR:
            if token.kind == Kind.STRING:
                return Matcher(METRIC_NAME, "=", name)
            raise self.unexpected("label matching", "label matching operator")
        self.advance()
        if self.token.kind != Kind.STRING:
            raise self.unexpected("label matching", "string")
        value = unquote(self.advance().text)
        op = MATCH_OPS[operator.text]
        if op in ("=~", "!~") and (problem := regex_problem(value)):
            raise self.fail(problem, token.at)
        return Matcher(name, op, value)

    def grouping(self) -> list[str]:
        """Reads `by (a, b)`, with whatever word stands before the list."""
        self.advance()
        return self.label_list()

    def label_list(self) -> list[str]:
        if not self.token.is_("("):
            raise self.unexpected("grouping opts", '"("')
        self.advance()
        found: list[str] = []
        while not self.token.is_(")"):
            token = self.token
            if token.kind == Kind.STRING:
                name = unquote(token.text)
            elif (
                token.is_("without")
                or not (token.source or token.kind == Kind.IDENTIFIER)
                or (token.kind == Kind.NUMBER)
            ):
                raise self.unexpected("grouping opts", "label")
            else:
                name = token.source or token.text
            self.advance()
            if not name or any("\udc80" <= c <= "\udcff" for c in name):
                raise self.fail(f'invalid label name for grouping: "{name}"', token.at)
            found.append(name)
            if self.token.is_(","):
                self.advance()
            elif not self.token.is_(")"):
                raise self.unexpected("grouping opts", '"," or ")"')
        self.advance()
        return found

    def matching(self) -> tuple[bool, Matching]:
        """Reads the modifiers of a binary operator: `bool`, and which elements belong together."""
        bool_modifier, matching = False, Matching()
        if self.token.is_("bool"):
            self.advance()
            bool_modifier = True
        if self.token.is_("on") or self.token.is_("ignoring"):
            matching.on = self.token.is_("on")
            matching.labels = self.grouping()
            if self.token.is_("group_left") or self.token.is_("group_right"):
                matching.cardinality = "many-to-one" if self.advance().text == "group_left" else "one-to-many"
                matching.include = self.label_list() if self.token.is_("(") else []
        while self.token.kind == Kind.KEYWORD and self.token.text in FILLS:
            word = self.advance().text
            value = self.fill_value()
            if word in ("fill", "fill_left"):
                matching.fill_left = value
            if word in ("fill", "fill_right"):
                matching.fill_right = value
            if word == "fill":
                break
        return bool_modifier, matching

    def fill_value(self) -> float:
        self.expect("(")
        sign = 1.0
        if self.token.is_("+") or self.token.is_("-"):
            sign = -1.0 if self.advance().text == "-" else 1.0
        if self.token.kind not in (Kind.NUMBER, Kind.DURATION):
            raise self.unexpected("", "")
        value = self.number_literal(self.advance()).value
        self.expect(")")
        return sign * value

    def at_value(self) -> float | Boundary:
        token = self.token
        if token.kind == Kind.PREPROCESSOR and token.text in ("start", "end"):
            self.advance()
            self.expect("(", "@")
            self.expect(")", "@")
            return "start" if token.text == "start" else "end"
        sign = 1.0
        if token.is_("+") or token.is_("-"):
            sign = -1.0 if self.advance().text == "-" else 1.0
        if self.token.kind not in (Kind.NUMBER, Kind.DURATION):
            raise self.unexpected("@", "timestamp")
        return sign * self.number_literal(self.advance()).value

    def checked_at(self, value: float | Boundary, node: Node) -> float | Boundary:
        if isinstance(value, str):
            return value
        if math.isnan(value) or math.isinf(value) or not -LATEST_SECONDS < value < LATEST_SECONDS:
            shown = (
                "NaN" if value != value else ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else f"{value:f}"
            )
            raise self.fail(f"timestamp out of bounds for @ modifier: {shown}", node.start)
        return math.floor(abs(value) * 1000 + 0.5) / 1000 * (-1 if value < 0 else 1)

    def starts_duration(self) -> bool:
        token = self.token
        return (
            token.kind in (Kind.NUMBER, Kind.DURATION)
            or token.is_("(")
            or token.is_("+")
            or token.is_("-")
            or (token.kind == Kind.PREPROCESSOR and token.text in DURATION_FUNCTIONS)
        )

    def positive_duration(self, context: tuple[str, str]) -> Duration:
        self.duration_context = context
        if not self.starts_duration():
            raise self.unexpected(*context)
        value = self.duration(0)
        if isinstance(value, NumberLiteral) and not value.value > 0:
            raise self.fail("duration must be greater than 0", value.start)
        return value

    def duration(self, binds: int, limit: int = 60) -> Duration:
        """Reads a duration with its operators; the limit bounds how deep it may be nested."""
        left = self.duration_operand(limit)
        while self.token.text in ARITHMETIC and PRECEDENCE[self.token.text] > binds:
            operator = self.advance()
            limit -= 1
            level = PRECEDENCE[operator.text]
            right = self.duration(level - 1 if operator.text == "^" else level, limit)
            if operator.text in "/%" and isinstance(right, NumberLiteral) and right.value == 0:
                kind = "division" if operator.text == "/" else "modulo"
                raise self.fail(f"{kind} by zero", operator.at)
            left = DurationExpression(operator.text, left, right, start=left.start, end=right.end)
        return left

    def duration_operand(self, limit: int) -> Duration:
        token = self.token
        if limit <= 0:
            raise self.fail("durations may not be nested this deep", token.at)
        if token.is_("+") or token.is_("-"):
            self.advance()
            return self.signed(token, self.duration(UNARY_BINDS - 1, limit - 1))
        if not self.starts_duration():
            raise self.unexpected(*self.duration_context)
        if token.is_("("):
            self.advance()
            inner = self.duration(0, limit - 1)
            closing = self.expect(")", *self.duration_context)
            if isinstance(inner, NumberLiteral):
                return DurationExpression("+", None, inner, wrapped=True, start=token.at, end=closing.end)
            inner.wrapped = True
            inner.start, inner.end = token.at, closing.end
            return inner
        self.advance()
        if token.kind == Kind.PREPROCESSOR:
            self.expect("(", *self.duration_context)
            left = right = None
            if token.text in ("min_of", "max_of"):
                left = self.duration(0, limit - 1)
                self.expect(",", *self.duration_context)
                right = self.duration(0, limit - 1)
            closing = self.expect(")", *self.duration_context)
            # Of a call with arguments, errors point at these.
            start, end = (token.at, closing.end) if left is None or right is None else (left.start, right.end)
            return DurationExpression(token.text, left, right, start=start, end=end)
        literal = self.number_literal(token)
        if not abs(literal.value) <= LONGEST_SECONDS:
            raise self.fail("duration out of range", token.at)
        return literal

    def signed(self, sign: Token, operand: Duration) -> Duration:
        if isinstance(operand, NumberLiteral):
            operand.value = -operand.value if sign.text == "-" else operand.value
            operand.start = sign.at
            return operand
        return DurationExpression(sign.text, None, operand, start=sign.at, end=operand.end)

    def offset_duration(self) -> Duration:
        """Reads what may follow `offset` without parentheses: one operand, with a sign or none."""
        self.duration_context = OFFSET
        token = self.token
        if not self.starts_duration():
            raise self.unexpected(*OFFSET)
        if token.is_("+") or token.is_("-"):
            self.advance()
            if not self.starts_duration() or self.token.kind == Kind.OPERATOR:
                raise self.unexpected(*OFFSET)
            return self.signed(token, self.duration_operand(60))
        # Parentheses begin a duration that may go on with operators; a number or a call ends it.
        return self.duration(0) if token.is_("(") else self.duration_operand(60)
