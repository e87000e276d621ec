"""Defines the words of PromQL and how messages call them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from frazil.query.promql.parse.literals import quote


class Kind(StrEnum):
    END = "end of input"
    ERROR = "error"
    IDENTIFIER = "identifier"
    METRIC = "metric identifier"
    NUMBER = "number"
    DURATION = "duration"
    STRING = "string"
    OPERATOR = "operator"
    AGGREGATOR = "aggregator"
    KEYWORD = "keyword"
    PREPROCESSOR = "preprocessor"
    PUNCTUATION = "punctuation"


PLAIN_AGGREGATORS = ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar")
AGGREGATORS_WITH_PARAMETER = frozenset(["topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio"])
AGGREGATORS = AGGREGATORS_WITH_PARAMETER.union(PLAIN_AGGREGATORS)
EXPERIMENTAL_AGGREGATORS = frozenset(["limitk", "limit_ratio"])
WORD_OPERATORS = frozenset(["and", "or", "unless", "atan2"])
SET_OPERATORS = frozenset(["and", "or", "unless"])
COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
TRIMS = frozenset(["</", ">/"])
PREPROCESSORS = frozenset(["start", "end", "step", "range", "max_of", "min_of"])
DURATION_FUNCTIONS = frozenset(["step", "range", "max_of", "min_of"])
FILLS = frozenset(["fill", "fill_left", "fill_right"])
KEYWORDS = FILLS | frozenset(
    ["offset", "smoothed", "anchored", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"]
)
# Words that stand for themselves as names of metrics where nothing else can stand.
NOT_METRICS = frozenset(["bool", "on", "ignoring", "group_left", "group_right", "atan2"])
PRECEDENCE = {
    "or": 1,
    "and": 2,
    "unless": 2,
    **dict.fromkeys([*COMPARISONS, *TRIMS], 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
    "atan2": 5,
    "^": 6,
}
UNARY_BINDS = PRECEDENCE["^"]


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    """As it stands in the query; words of PromQL in lower case. Of an error: the message."""
    at: int
    source: str = ""
    """The word as it stands in the query, where `text` is in lower case."""

    @property
    def end(self) -> int:
        return self.at + len(self.source or self.text)

    def is_(self, text: str) -> bool:
        """Whether this is the given operator, word or punctuation."""
        return self.text == text and self.kind in _LITERAL_KINDS

    def __str__(self) -> str:
        """Describes the token in a message."""
        if self.kind == Kind.STRING:
            shown = self.text.encode("utf-8", "surrogateescape")
            if len(shown) > 10:
                cut = shown[:10].decode("utf-8", "surrogateescape")
                return f"string {quote(cut)}..."
            return f"string {quote(self.text)}"
        if self.kind in (Kind.END, Kind.ERROR):
            return self.kind.value if self.kind == Kind.END else self.text
        if self.kind in (Kind.IDENTIFIER, Kind.METRIC, Kind.NUMBER, Kind.DURATION):
            return f"{self.kind.value} {quote(self.source or self.text)}"
        if self.kind == Kind.PREPROCESSOR:
            return quote(self.text)
        if (self.kind == Kind.OPERATOR and self.text != "=") or self.text == "@":
            return f"<op:{self.text}>"
        if self.kind == Kind.AGGREGATOR:
            return f"<aggr:{self.text}>"
        if self.kind in (Kind.PUNCTUATION, Kind.OPERATOR):
            return quote(self.text)
        return f"<{self.text}>"


_LITERAL_KINDS = frozenset([Kind.OPERATOR, Kind.AGGREGATOR, Kind.KEYWORD, Kind.PREPROCESSOR, Kind.PUNCTUATION])
