"""Reads a query as a tree, with one token in sight, by the precedence of its operators."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.query.promql.function_table import FUNCTIONS
from frazil.query.promql.parse.check import check_types
from frazil.query.promql.parse.clauses import RANGE, STEP, Clauses
from frazil.query.promql.parse.literals import unquote
from frazil.query.promql.parse.tokens import (
    AGGREGATORS_WITH_PARAMETER,
    EXPERIMENTAL_AGGREGATORS,
    NOT_METRICS,
    PRECEDENCE,
    SET_OPERATORS,
    UNARY_BINDS,
    Kind,
)
from frazil.query.promql.parse.tree import (
    METRIC_NAME,
    Aggregate,
    Binary,
    Call,
    Matcher,
    MatrixSelector,
    Node,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
    depth,
)
from frazil.query.promql.problems import ParseError

# Each level costs some ten frames of the interpreter's stack, of which there are a thousand.
DEEPEST = 80
# `a + b + c` is nested too, to the left; whoever walks over the tree takes a few frames for each level.
LONGEST_CHAIN = 200


@dataclass(frozen=True)
class ParserOptions:
    """Says which parts of the language may be used."""

    experimental_functions: bool = True
    extended_ranges: bool = True
    fill_modifiers: bool = True


def parse(text: str, options: ParserOptions | None = None) -> Node:
    """Returns the tree of a query, or raises a `ParseError` that knows line and column."""
    parser = Parser(text, options or ParserOptions())
    node = parser.whole()
    if depth(node) > LONGEST_CHAIN:
        raise parser.too_long(node)
    check_types(node, parser.fail)
    return node


def parse_selector(text: str) -> list[Matcher]:
    """Returns the matchers of a bare selector, as `match[]` has them."""
    parser = Parser(text, ParserOptions())
    node = parser.whole(bare_selector=True)
    assert isinstance(node, VectorSelector)
    check_types(node, parser.fail)
    return node.all_matchers


def parse_metric(text: str) -> dict[str, str]:
    """Returns the labels of one series, written as `name{label="value"}`."""
    parser = Parser(text, ParserOptions())
    node = parser.whole(bare_selector=True)
    assert isinstance(node, VectorSelector)
    return {m.name: m.value for m in node.all_matchers if m.value}


class Parser(Clauses):
    """Reads expressions; `Clauses` reads what stands inside them."""

    def __init__(self, text: str, options: ParserOptions) -> None:
        super().__init__(text)
        self.options = options
        self.depth = 0

    def whole(self, bare_selector: bool = False) -> Node:
        if self.token.kind == Kind.END:
            if not self.text:
                raise self.unplaced("no expression found in input")
            raise self.fail("no expression found in input", 0)
        if bare_selector:
            if not (self.token.is_("{") or self.is_metric()):
                raise self.unexpected("", "")
            node: Node = self.vector_selector()
        else:
            node = self.expression(0)
        self.expect_end()
        return node

    def expect_end(self) -> None:
        if self.token.kind != Kind.END:
            raise self.unexpected("", "")

    def expression(self, binds: int) -> Node:
        """Reads an expression whose operators bind tighter than the given precedence."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fail(f"expressions may be nested {DEEPEST} deep", self.token.at)
        left = self.with_modifiers(self.primary())
        operators = 0
        while self.token.kind == Kind.OPERATOR and PRECEDENCE[self.token.text] > binds:
            left = self.binary(left)
            operators += 1
            # Megabytes of operators would otherwise be read to their end, which takes a minute.
            if operators >= LONGEST_CHAIN:
                raise self.too_long(left)
        self.depth -= 1
        return left

    def too_long(self, node: Node) -> ParseError:
        return self.fail(f"expressions may have {LONGEST_CHAIN} levels", node.start)

    def binary(self, left: Node) -> Binary:
        operator = self.advance()
        bool_modifier, matching = self.matching()
        level = PRECEDENCE[operator.text]
        right = self.expression(level - 1 if operator.text == "^" else level)
        if operator.text in SET_OPERATORS and matching.cardinality == "one-to-one":
            matching.cardinality = "many-to-many"
        if matching.on:
            for label in matching.labels:
                if label in matching.include:
                    raise self.fail(f'label "{label}" must not occur in ON and GROUP clause at once', operator.at)
        return Binary(
            operator.text,
            left,
            right,
            bool_modifier,
            matching,
            operator_at=operator.at,
            start=left.start,
            end=right.end,
        )

    def primary(self) -> Node:
        token = self.token
        if token.kind in (Kind.NUMBER, Kind.DURATION):
            self.advance()
            return self.number_literal(token)
        if token.kind == Kind.STRING:
            self.advance()
            return StringLiteral(unquote(token.text), start=token.at, end=token.end)
        if token.is_("("):
            self.advance()
            inner = self.expression(0)
            closing = self.expect(")")
            return Paren(inner, start=token.at, end=closing.end)
        if token.is_("+") or token.is_("-"):
            return self.unary()
        if token.is_("{"):
            return self.vector_selector()
        if token.kind == Kind.AGGREGATOR and self.next_token_is("(", "by", "without"):
            return self.aggregate()
        if token.kind in (Kind.IDENTIFIER, Kind.PREPROCESSOR) and self.next_token_is("("):
            return self.call()
        if self.is_metric():
            return self.vector_selector()
        raise self.unexpected("", "")

    def starts_expression(self) -> bool:
        kinds = (Kind.NUMBER, Kind.DURATION, Kind.STRING, Kind.ERROR)
        return self.token.kind in kinds or self.is_metric() or any(map(self.token.is_, "({+-"))

    def is_metric(self) -> bool:
        token = self.token
        return token.kind in (Kind.IDENTIFIER, Kind.METRIC, Kind.AGGREGATOR, Kind.PREPROCESSOR) or (
            token.kind in (Kind.KEYWORD, Kind.OPERATOR) and bool(token.source) and token.text not in NOT_METRICS
        )

    def unary(self) -> Node:
        operator = self.advance()
        operand = self.expression(UNARY_BINDS - 1)
        if isinstance(operand, NumberLiteral):
            operand.value = -operand.value if operator.text == "-" else operand.value
            operand.start = operator.at
            return operand
        return Unary(operator.text, operand, start=operator.at, end=operand.end)

    def vector_selector(self) -> VectorSelector:
        token, name = self.token, ""
        if not token.is_("{"):
            self.advance()
            name = token.source or token.text
        matchers: list[Matcher] = []
        end = token.end
        if self.token.is_("{"):
            matchers, end = self.matchers()
        node = VectorSelector(name, matchers, start=token.at, end=end)
        if name:
            for matcher in matchers:
                if matcher.name == METRIC_NAME:
                    raise self.fail(f'metric name must not be set twice: "{name}" or "{matcher.value}"', node.start)
        return node

    def with_modifiers(self, node: Node) -> Node:
        """Reads what may follow an operand: a range, offset, `@`, `anchored`, `smoothed`."""
        while True:
            token = self.token
            if token.is_("["):
                node = self.range_of(node)
            elif token.is_("offset"):
                self.offset(node)
            elif token.is_("@"):
                self.at(node)
            elif token.is_("anchored") or token.is_("smoothed"):
                self.extend(node)
            else:
                return node

    def range_of(self, node: Node) -> Node:
        opening = self.advance()
        window = self.positive_duration(RANGE)
        if self.token.is_(":"):
            self.advance()
            step = None
            if not self.token.is_("]"):
                step = self.positive_duration(STEP)
                if not self.token.is_("]"):
                    raise self.unexpected("subquery selector", '"]"')
            closing = self.advance()
            return Subquery(node, window, step, start=node.start, end=closing.end)
        if not self.token.is_("]"):
            raise self.unexpected("subquery or range", '":" or "]"')
        closing = self.advance()
        if not isinstance(node, VectorSelector):
            raise self.fail("ranges only allowed for vector selectors", opening.at)
        if node.offset is not None and node.print_offset():
            raise self.fail("no offset modifiers allowed before range", opening.at)
        if node.at is not None:
            raise self.fail("no @ modifiers allowed before range", opening.at)
        return MatrixSelector(node, window, start=node.start, end=closing.end)

    def offset(self, node: Node) -> None:
        self.advance()
        value = self.offset_duration()
        target = self.timed(node, "offset modifier must be preceded by an instant vector selector or range vector "
                                  "selector or a subquery")  # fmt: skip
        if target.offset is not None and target.print_offset():
            raise self.fail("offset may not be set multiple times", node.start)
        target.offset = value
        node.end = self.last_end

    def at(self, node: Node) -> None:
        self.advance()
        value = self.at_value()
        target = self.timed(node, "@ modifier must be preceded by an instant vector selector or range vector "
                                  "selector or a subquery")  # fmt: skip
        if target.at is not None:
            raise self.fail("@ <timestamp> may not be set multiple times", node.start)
        target.at = self.checked_at(value, node)
        node.end = self.last_end

    def timed(self, node: Node, message: str) -> VectorSelector | Subquery:
        inner = node.selector if isinstance(node, MatrixSelector) else node
        if not isinstance(inner, VectorSelector | Subquery):
            raise self.fail(message, node.start)
        return inner

    def extend(self, node: Node) -> None:
        word = self.advance().text
        if not self.options.extended_ranges:
            raise self.fail(f"{word} modifier is experimental and not enabled", node.start)
        inner = node.selector if isinstance(node, MatrixSelector) else node
        if isinstance(inner, Subquery):
            raise self.fail(f"{word} modifier is not supported for subqueries", node.start)
        if not isinstance(inner, VectorSelector):
            raise self.fail(f"{word} modifier not implemented", node.start)
        if word == "anchored":
            inner.anchored = True
        else:
            inner.smoothed = True
        if inner.anchored and inner.smoothed:
            raise self.fail("anchored and smoothed modifiers cannot be used together", node.start)
        node.end = self.last_end

    def aggregate(self) -> Aggregate:
        operator = self.advance()
        grouping: list[str] = []
        without = written = False
        if not self.token.is_("("):
            without, grouping, written = self.token.is_("without"), self.grouping(), True
        self.open_aggregations += 1
        arguments, end = self.arguments()
        self.open_aggregations -= 1
        if not written and (self.token.is_("by") or self.token.is_("without")):
            without, grouping = self.token.is_("without"), self.grouping()
            end = self.last_end
        if operator.text in EXPERIMENTAL_AGGREGATORS and not self.options.experimental_functions:
            raise self.fail(
                f"{operator.text}() is experimental and must be enabled with "
                "--enable-feature=promql-experimental-functions",
                operator.at,
            )
        if not arguments:
            raise self.fail("no arguments for aggregate expression provided", operator.at)
        wanted = 2 if operator.text in AGGREGATORS_WITH_PARAMETER else 1
        if len(arguments) != wanted:
            raise self.fail(
                f"wrong number of arguments for aggregate expression provided, expected {wanted}, "
                f"got {len(arguments)}",
                operator.at,
            )
        parameter = arguments[0] if wanted == 2 else None
        return Aggregate(operator.text, arguments[-1], parameter, grouping, without, start=operator.at, end=end)

    def call(self) -> Call:
        name = self.advance()
        signature = FUNCTIONS.get(name.source or name.text)
        arguments, end = self.arguments()
        if signature is None:
            raise self.fail(f'unknown function with name "{name.source or name.text}"', name.at)
        if signature.experimental and not self.options.experimental_functions:
            raise self.fail(f'function "{signature.name}" is not enabled', name.at)
        return Call(signature.name, arguments, signature.returns, start=name.at, end=end)

    def arguments(self) -> tuple[list[Node], int]:
        if not self.token.is_("("):
            raise self.unexpected("", "")
        self.advance()
        found: list[Node] = []
        while not self.token.is_(")"):
            found.append(self.expression(0))
            if not self.token.is_(","):
                break
            comma = self.advance()
            if not self.starts_expression():
                raise self.fail("trailing commas not allowed in function call args", comma.at)
        closing = self.expect(")")
        return found, closing.end
