"""Defines the tree of log queries: selectors, stages and label filters. Each node prints itself as LogQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from frazil.query.logql.go_numbers import format_bytes, format_float, format_go_duration, quoted

MatchOperator: TypeAlias = Literal["=", "!=", "=~", "!~"]
Comparator: TypeAlias = Literal["==", "!=", ">", ">=", "<", "<="]
LineOperator: TypeAlias = Literal["|=", "!=", "|~", "!~", "|>", "!>"]


@dataclass(frozen=True, eq=False)
class Place:
    """Is where a node begins in the text, from line 1 and column 1. All places are equal: trees differ by content."""

    line: int = 0
    column: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place)

    def __hash__(self) -> int:
        return 0


NOWHERE = Place()


@dataclass(frozen=True)
class Matcher:
    name: str
    operator: MatchOperator
    value: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{quoted(self.value)}"


@dataclass(frozen=True)
class Selector:
    matchers: tuple[Matcher, ...]
    place: Place = NOWHERE

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.matchers)) + "}"


@dataclass(frozen=True)
class LineOperand:
    text: str
    is_address: bool = False

    def __str__(self) -> str:
        return f"ip({quoted(self.text)})" if self.is_address else quoted(self.text)


@dataclass(frozen=True)
class LineFilter:
    """Passes lines that fit one of the operands; a negative operator passes lines that fit none of them."""

    operator: LineOperator
    operands: tuple[LineOperand, ...]
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"{self.operator} {' or '.join(map(str, self.operands))}"


@dataclass(frozen=True)
class Extraction:
    """Says that a label gets what is found in the line under `source`."""

    label: str
    source: str

    def __str__(self) -> str:
        return f"{self.label}={quoted(self.source)}"


@dataclass(frozen=True)
class JsonParser:
    extractions: tuple[Extraction, ...] = ()
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| json {','.join(map(str, self.extractions))}".rstrip()


@dataclass(frozen=True)
class LogfmtParser:
    strict: bool = False
    keep_empty: bool = False
    extractions: tuple[Extraction, ...] = ()
    place: Place = NOWHERE

    def __str__(self) -> str:
        words = ["| logfmt", "--strict" * self.strict, "--keep-empty" * self.keep_empty]
        return " ".join(filter(None, [*words, ",".join(map(str, self.extractions))]))


@dataclass(frozen=True)
class RegexpParser:
    pattern: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| regexp {quoted(self.pattern)}"


@dataclass(frozen=True)
class PatternParser:
    pattern: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| pattern {quoted(self.pattern)}"


@dataclass(frozen=True)
class UnpackParser:
    place: Place = NOWHERE

    def __str__(self) -> str:
        return "| unpack"


@dataclass(frozen=True)
class TextFilter:
    matcher: Matcher

    def __str__(self) -> str:
        return str(self.matcher)


@dataclass(frozen=True)
class NumberFilter:
    name: str
    comparator: Comparator
    value: float

    def __str__(self) -> str:
        return f"{self.name}{self.comparator}{format_float(self.value)}"


@dataclass(frozen=True)
class DurationFilter:
    name: str
    comparator: Comparator
    nanoseconds: int

    def __str__(self) -> str:
        return f"{self.name}{self.comparator}{format_go_duration(self.nanoseconds)}"


@dataclass(frozen=True)
class BytesFilter:
    name: str
    comparator: Comparator
    size: int

    def __str__(self) -> str:
        return f"{self.name}{self.comparator}{format_bytes(self.size)}"


@dataclass(frozen=True)
class AddressFilter:
    name: str
    operator: Literal["=", "!="]
    pattern: str

    def __str__(self) -> str:
        return f"{self.name}{self.operator}ip({quoted(self.pattern)})"


@dataclass(frozen=True)
class BothFilters:
    left: LabelCondition
    right: LabelCondition

    def __str__(self) -> str:
        return f"( {self.left} , {self.right} )"


@dataclass(frozen=True)
class EitherFilter:
    left: LabelCondition
    right: LabelCondition

    def __str__(self) -> str:
        return f"( {self.left} or {self.right} )"


LabelCondition: TypeAlias = (
    TextFilter | NumberFilter | DurationFilter | BytesFilter | AddressFilter | BothFilters | EitherFilter
)


@dataclass(frozen=True)
class LabelFilter:
    condition: LabelCondition
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| {self.condition}"


@dataclass(frozen=True)
class LineFormat:
    template: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| line_format {quoted(self.template)}"


@dataclass(frozen=True)
class LabelFormatItem:
    """Renames the label `source` to `label`, or gives `label` the text of a template."""

    label: str
    source: str
    is_template: bool

    def __str__(self) -> str:
        return f"{self.label}={quoted(self.source) if self.is_template else self.source}"


@dataclass(frozen=True)
class LabelFormat:
    items: tuple[LabelFormatItem, ...]
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| label_format {','.join(map(str, self.items))}"


@dataclass(frozen=True)
class Decolorize:
    place: Place = NOWHERE

    def __str__(self) -> str:
        return "| decolorize"


@dataclass(frozen=True)
class ChosenLabel:
    """Names a label, whatever its value is or only if the value matches."""

    name: str
    matcher: Matcher | None = None

    def __str__(self) -> str:
        return str(self.matcher or self.name)


@dataclass(frozen=True)
class DropLabels:
    labels: tuple[ChosenLabel, ...]
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| drop {','.join(map(str, self.labels))}"


@dataclass(frozen=True)
class KeepLabels:
    labels: tuple[ChosenLabel, ...]
    place: Place = NOWHERE

    def __str__(self) -> str:
        return f"| keep {','.join(map(str, self.labels))}"


Parser: TypeAlias = JsonParser | LogfmtParser | RegexpParser | PatternParser | UnpackParser
Stage: TypeAlias = LineFilter | Parser | LabelFilter | LineFormat | LabelFormat | Decolorize | DropLabels | KeepLabels


@dataclass(frozen=True)
class LogQuery:
    selector: Selector
    stages: tuple[Stage, ...] = ()
    place: Place = NOWHERE

    def __str__(self) -> str:
        return " ".join(map(str, (self.selector, *self.stages)))
