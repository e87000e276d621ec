"""Cuts a query into tokens. What stands in braces and in brackets has rules of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from frazil.query.promql.parse.literals import quote
from frazil.query.promql.parse.tokens import (
    AGGREGATORS,
    DURATION_FUNCTIONS,
    FILLS,
    KEYWORDS,
    PREPROCESSORS,
    WORD_OPERATORS,
    Kind,
    Token,
)

SPACE = re.compile(r"[ \t\r\n]+")
COMMENT = re.compile(r"#[^\r\n]*")
WORD = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)
LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
LETTERS = re.compile(r"[A-Za-z_]+", re.ASCII)
REST_OF_DURATION = re.compile(r"[smhdwy]s?(?:\d+[smhdw]s?)*(?![A-Za-z0-9_])", re.ASCII)
PART_OF_DURATION = re.compile(r"[smhdwy]s?(?:\d+[smhdw]s?)*(?:\d+|\w)?", re.ASCII)
RAW_STRING = re.compile(r"`[^`]*`")
PLAIN_STRING = {"'": re.compile(r"'[^'\\\n]*'"), '"': re.compile(r'"[^"\\\n]*"')}
OPERATORS = ("==", "!=", "<=", "</", "<", ">=", ">/", ">", "+", "-", "*", "/", "%", "^")
PUNCTUATION = frozenset("(),@]")
DECIMAL_DIGITS, HEX_DIGITS = frozenset("0123456789"), frozenset("0123456789abcdefABCDEF")
NUMBER_SHAPE = frozenset("._eE")


class LexError(Exception):
    """Raised inside the lexer: the text cannot go on like this. It becomes the last token."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def tokens(text: str) -> Iterator[Token]:
    """Returns the tokens of a query, one by one. The last one is the end, or an error."""
    lexer = Lexer(text)
    try:
        yield from lexer.run()
    except LexError as error:
        yield Token(Kind.ERROR, str(error), error.at)


class Lexer:
    """Is where in a text the lexer stands, and what is open there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.in_braces = self.in_brackets = False
        self.seen_colon = self.seen_duration = False
        self.any_duration = False
        """Whether a number stood in any brackets so far, these or others."""

    def run(self) -> Iterator[Token]:
        text = self.text
        while True:
            if found := SPACE.match(text, self.at):
                self.at = found.end()
            if self.at >= len(text):
                break
            if text[self.at] == "#" and not (self.in_brackets and not self.seen_duration):
                self.at = COMMENT.match(text, self.at).end()  # type: ignore[union-attr]
                continue
            if self.in_braces:
                token = self.inside_braces()
            elif self.in_brackets and not self.seen_duration:
                token = self.before_duration()
            else:
                token = self.statement()
            self.at = token.end
            self.count_parentheses(token)
            yield token
        if self.in_braces:
            raise LexError("unexpected end of input inside braces", self.at)
        if self.in_brackets and not self.seen_duration:
            raise LexError("unexpected end of input in duration expression", self.at)
        if self.depth:
            raise LexError("unclosed left parenthesis", self.at)
        if self.in_brackets:
            raise LexError("unclosed left bracket", self.at)
        yield Token(Kind.END, "", len(text))

    def count_parentheses(self, token: Token) -> None:
        if token.kind != Kind.PUNCTUATION:
            return
        if token.text == "(":
            self.depth += 1
        elif token.text == ")":
            self.depth -= 1
            if self.depth < 0:
                raise LexError("unexpected right parenthesis ')'", self.at)

    def statement(self) -> Token:
        char = self.text[self.at]
        if char == "]":
            if not self.in_brackets:
                raise self.error("unexpected right bracket ']'")
            self.in_brackets = False
        if char in PUNCTUATION:
            return Token(Kind.PUNCTUATION, char, self.at)
        if char == "{":
            self.in_braces = True
            return Token(Kind.PUNCTUATION, char, self.at)
        if char == "[":
            if self.in_brackets:
                raise self.error("unexpected left bracket '['")
            self.in_brackets, self.seen_colon, self.seen_duration = True, False, False
            return Token(Kind.PUNCTUATION, char, self.at)
        if char in DECIMAL_DIGITS or (char == "." and self.peek(1) in DECIMAL_DIGITS):
            return self.number()
        if char in "\"'`":
            return self.string()
        if self.in_brackets and (char == ":" or LETTERS.match(char)):
            return self.after_duration(char)
        if found := WORD.match(self.text, self.at):
            return self.word(found.group())
        if operator := self.operator():
            return operator
        if char == "=":
            if self.peek(1) == "~":
                raise self.error("unexpected character after '=': '~'")
            return Token(Kind.PUNCTUATION, char, self.at)
        if char == "!":
            raise self.error(f"unexpected character after '!': {self.shown(self.at + 1)}")
        raise self.error(f"unexpected character: {self.shown(self.at)}")

    def operator(self) -> Token | None:
        for operator in OPERATORS:
            if self.text.startswith(operator, self.at):
                return Token(Kind.OPERATOR, operator, self.at)
        return None

    def word(self, word: str) -> Token:
        lower = word.lower()
        if lower in FILLS and not re.compile(r"[ \t\r\n]*\(").match(self.text, self.at + len(word)):
            return Token(Kind.IDENTIFIER, word, self.at)
        kind = (
            Kind.AGGREGATOR
            if lower in AGGREGATORS
            else Kind.OPERATOR
            if lower in WORD_OPERATORS
            else Kind.KEYWORD
            if lower in KEYWORDS
            else Kind.PREPROCESSOR
            if lower in PREPROCESSORS
            else Kind.NUMBER
            if lower in ("inf", "nan")
            else Kind.METRIC
            if ":" in word
            else Kind.IDENTIFIER
        )
        plain = kind in (Kind.IDENTIFIER, Kind.METRIC, Kind.NUMBER)
        return Token(kind, word if plain else lower, self.at, word)

    def inside_braces(self) -> Token:
        char = self.text[self.at]
        if found := LABEL.match(self.text, self.at):
            return Token(Kind.IDENTIFIER, found.group(), self.at)
        if char in "\"'`":
            return self.string()
        if char == "}":
            self.in_braces = False
        if char in ",}":
            return Token(Kind.PUNCTUATION, char, self.at)
        if char == "=":
            return Token(Kind.OPERATOR, "=~" if self.peek(1) == "~" else "=", self.at)
        if char == "!":
            if self.peek(1) not in ("=", "~"):
                raise self.error(f"unexpected character after '!' inside braces: {self.shown(self.at + 1)}")
            return Token(Kind.OPERATOR, char + self.peek(1), self.at)
        if char == "{":
            raise self.error("unexpected left brace '{'")
        raise self.error(f"unexpected character inside braces: {self.shown(self.at)}")

    def before_duration(self) -> Token:
        """Reads what stands in brackets before the first number."""
        char = self.text[self.at]
        if char == "]":
            self.in_brackets = False
        if char in "(),]":
            return Token(Kind.PUNCTUATION, char, self.at)
        if char == ":":
            return self.colon()
        if char in "+-*/%^":
            return Token(Kind.OPERATOR, char, self.at)
        if char in DECIMAL_DIGITS or (char == "." and self.peek(1) in DECIMAL_DIGITS):
            self.seen_duration = self.any_duration = True
            return self.number()
        if token := self.duration_function():
            return token
        raise self.error(f"unexpected character in duration expression: {self.shown(self.at)}")

    def after_duration(self, char: str) -> Token:
        """Reads a colon or a word in brackets after a number."""
        if char == ":":
            if self.seen_colon:
                raise self.error("unexpected colon ':'")
            return self.colon()
        if token := self.duration_function():
            return token
        raise self.error(f"unexpected character: {self.shown(self.at)}, expected ':'")

    def colon(self) -> Token:
        if not self.any_duration:
            raise LexError("unexpected colon before duration in duration expression", self.at + 1)
        if self.seen_colon:
            raise LexError("unexpected repeated colon in duration expression", self.at + 1)
        self.seen_colon = True
        return Token(Kind.PUNCTUATION, ":", self.at)

    def duration_function(self) -> Token | None:
        found = LETTERS.match(self.text, self.at)
        if found is None or found.group().lower() not in DURATION_FUNCTIONS:
            return None
        return Token(Kind.PREPROCESSOR, found.group().lower(), self.at, found.group())

    def number(self) -> Token:
        is_number, end = self.scan_number()
        if is_number:
            return Token(Kind.NUMBER, self.text[self.at : end], self.at)
        if found := REST_OF_DURATION.match(self.text, end):
            return Token(Kind.DURATION, self.text[self.at : found.end()], self.at)
        if found := PART_OF_DURATION.match(self.text, end):
            end = found.end()
        raise self.error(f"bad number or duration syntax: {quote(self.text[self.at : end])}")

    def scan_number(self) -> tuple[bool, int]:
        """Says whether a number stands here, and how far the text looks like one."""
        at, digits = self.at, DECIMAL_DIGITS
        if self.text[at] == "0" and self.peek(1) in ("x", "X"):
            at, digits = at + 2, HEX_DIGITS
            at += self.char(at) == "_"
        seen_dot = self.char(at) == "."
        seen_exponent = False
        at += seen_dot
        at += self.char(at) in digits
        while (char := self.char(at)) and (char in digits or char in NUMBER_SHAPE):
            at += 1
            following = self.char(at)
            if char == ".":
                if seen_dot or following in ("_", ".") or digits is HEX_DIGITS:
                    return False, at + (following in ("_", ".") and not seen_dot)
                seen_dot = True
            elif char in "eE":
                if seen_exponent:
                    return False, at
                seen_exponent = True
                at += following in ("+", "-")
                following = self.char(at)
                if following == "" or following in "._eE":
                    return False, at + bool(following)
            elif char == "_" and (following == "" or following in "._eE"):
                return False, at + bool(following)
            elif char in digits:
                while self.char(at) in digits:
                    at += 1
        following = self.char(at)
        return not (following.isalnum() or following == "_"), at

    def string(self) -> Token:
        delimiter = self.text[self.at]
        if delimiter == "`":
            if found := RAW_STRING.match(self.text, self.at):
                return Token(Kind.STRING, found.group(), self.at)
            raise self.error("unterminated raw string")
        if found := PLAIN_STRING[delimiter].match(self.text, self.at):
            return Token(Kind.STRING, found.group(), self.at)
        at = self.at + 1
        while True:
            char = self.char(at)
            if char in ("", "\n"):
                raise self.error("unterminated quoted string")
            if char == delimiter:
                return Token(Kind.STRING, self.text[self.at : at + 1], self.at)
            at = self.escape_end(at + 1, delimiter) if char == "\\" else at + 1

    def escape_end(self, at: int, delimiter: str) -> int:
        """Returns where the escape sequence ends, whose first character after the backslash is here."""
        char = self.char(at)
        if char == "":
            raise self.error("escape sequence not terminated")
        if char == delimiter or char in "abfnrtv\\":
            return at + 1
        if char in "01234567":
            length, base, digits = 3, 8, at
        elif char in "xuU":
            length, base, digits = {"x": 2, "u": 4, "U": 8}[char], 16, at + 1
        else:
            raise self.error(f"unknown escape sequence {unicode_name(char)}")
        value = 0
        for position in range(digits, digits + length):
            digit = self.char(position)
            if digit == "":
                raise self.error("escape sequence not terminated")
            if digit not in "0123456789abcdefABCDEF"[: 8 if base == 8 else None]:
                raise self.error(f"illegal character {unicode_name(digit)} in escape sequence")
            value = value * base + int(digit, 16)
        if value > (255 if base == 8 else 0x10FFFF) or 0xD800 <= value < 0xE000:
            raise self.error("escape sequence is an invalid Unicode code point")
        return digits + length

    def char(self, at: int) -> str:
        return self.text[at : at + 1] or ""

    def peek(self, distance: int) -> str:
        return self.char(self.at + distance)

    def shown(self, at: int) -> str:
        """Shows the character here as Go's `%q` does."""
        char = self.char(at)
        if not char:
            return "'\ufffd'"
        return "'\\''" if char == "'" else f"'{quote(char)[1:-1]}'" if char != '"' else "'\"'"

    def error(self, message: str) -> LexError:
        return LexError(message, self.at)


def unicode_name(char: str) -> str:
    code = ord(char)
    return f"U+{code:04X} '{char}'" if char.isprintable() else f"U+{code:04X}"
