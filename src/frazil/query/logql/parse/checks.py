"""Checks what the grammar allows and LogQL does not, so that a query fails before it reads anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from frazil.errors import QueryError
from frazil.query.logql.addresses import address_range
from frazil.query.logql.json_paths import logfmt_key, path_of
from frazil.query.logql.line_patterns import PatternFault, filter_pattern, parser_pattern
from frazil.query.logql.parse.log_tree import (
    AddressFilter,
    BothFilters,
    DropLabels,
    EitherFilter,
    JsonParser,
    KeepLabels,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LineFilter,
    LineFormat,
    LogfmtParser,
    LogQuery,
    Matcher,
    PatternParser,
    Place,
    RegexpParser,
    Stage,
    TextFilter,
)
from frazil.query.logql.parse.metric_tree import (
    BinaryOperation,
    Grouping,
    LabelReplace,
    MetricQuery,
    Query,
    RangeAggregation,
    VectorAggregation,
)
from frazil.query.logql.parse.tokens import error
from frazil.query.logql.regexes import RegexFault, anchored, check, groups_of, matches_text
from frazil.query.logql.templates.parser import compiled

NO_MATCHER = (
    "queries require at least one regexp or equality matcher that does not have an empty-compatible value. "
    'For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)
_UNWRAPPED = frozenset(
    [
        "sum_over_time",
        "avg_over_time",
        "min_over_time",
        "max_over_time",
        "stddev_over_time",
        "stdvar_over_time",
        "first_over_time",
        "last_over_time",
        "quantile_over_time",
        "rate_counter",
    ]
)
_NEVER_UNWRAPPED = frozenset(("count_over_time", "bytes_over_time", "bytes_rate"))
_GROUPED = _UNWRAPPED - {"sum_over_time", "rate_counter"}
_CHOOSING = frozenset(("topk", "bottomk", "approx_topk"))


def _at(found: QueryError, place: Place) -> QueryError:
    """Adds the place to an error whose text, as Loki's, has none."""
    return QueryError(str(found), place.line or None, place.column or None)


def check_selector(matcher: Matcher) -> None:
    if matcher.operator in ("=~", "!~"):
        try:
            check(anchored(check(matcher.value), newlines=True))
        except RegexFault as wrong:
            raise _at(error(str(wrong)), matcher.place) from None


def check_selectors(query: Query) -> None:
    """Checks that each selector leaves out streams that lack a label."""
    for log_query in log_queries(query):
        if not any(_needs_value(matcher) for matcher in log_query.selector.matchers):
            raise _at(error(NO_MATCHER), log_query.selector.place)


def _needs_value(matcher: Matcher) -> bool:
    if matcher.operator == "=":
        return matcher.value != ""
    return matcher.operator == "=~" and not matches_text("", anchored(matcher.value, newlines=True))


def log_queries(query: Query) -> Iterator[LogQuery]:
    """Yields all log queries in the tree."""
    match query:
        case LogQuery():
            yield query
        case RangeAggregation():
            yield query.range.query
        case VectorAggregation() | LabelReplace():
            yield from log_queries(query.expression)
        case BinaryOperation():
            yield from log_queries(query.left)
            yield from log_queries(query.right)


def check_stage(stage: Stage) -> None:
    """Checks regular expressions, patterns, paths, addresses and templates of a stage."""
    try:
        match stage:
            case RegexpParser():
                _prefixed("invalid regexp parser: ", lambda: _check_groups(stage.pattern))
            case LabelFilter():
                _prefixed("", lambda: _check_texts(stage.condition))
                _prefixed(f"stage '{stage}' : ", lambda: _check_addresses(stage.condition))
            case PatternParser():
                _prefixed("invalid pattern parser: ", lambda: parser_pattern(stage.pattern))
            case _:
                _prefixed(f"stage '{stage}' : ", lambda: _check_stage(stage))
    except QueryError as wrong:
        raise _at(wrong, stage.place) from None


def _prefixed(prefix: str, check_it: Callable[[], object]) -> None:
    try:
        check_it()
    except ValueError as wrong:
        raise error(f"{prefix}{wrong}") from None


def _check_stage(stage: Stage) -> None:
    match stage:
        case LineFilter():
            _check_line_filter(stage)
        case JsonParser():
            for extraction in stage.extractions:
                path_of(extraction.source)
        case LogfmtParser():
            for extraction in stage.extractions:
                logfmt_key(extraction.source)
        case LineFormat():
            _check_template("invalid line template: ", "line", stage.template)
        case LabelFormat():
            _check_label_format(stage)
        case DropLabels() | KeepLabels():
            for chosen in stage.labels:
                if chosen.matcher and chosen.matcher.operator in ("=~", "!~"):
                    check(anchored(check(chosen.matcher.value)))


def _check_template(prefix: str, name: str, text: str) -> None:
    try:
        compiled(name, text)
    except ValueError as wrong:
        raise ValueError(f"{prefix}{wrong}") from None


def _check_line_filter(stage: LineFilter) -> None:
    for operand in stage.operands:
        if operand.is_address:
            if stage.operator not in ("|=", "!="):
                raise PatternFault("ip: invalid operation")
            address_range(operand.text)
        elif stage.operator in ("|~", "!~"):
            check(operand.text)
        elif stage.operator in ("|>", "!>"):
            filter_pattern(operand.text)


def _check_addresses(condition: LabelCondition) -> None:
    match condition:
        case BothFilters(left, right) | EitherFilter(left, right):
            _check_addresses(left)
            _check_addresses(right)
        case AddressFilter():
            address_range(condition.pattern)


def _check_texts(condition: LabelCondition) -> None:
    match condition:
        case BothFilters(left, right) | EitherFilter(left, right):
            _check_texts(left)
            _check_texts(right)
        case TextFilter(matcher) if matcher.operator in ("=~", "!~"):
            check(anchored(check(matcher.value)))


def _check_label_format(stage: LabelFormat) -> None:
    seen = set()
    for item in stage.items:
        if item.label == "__error__":
            raise PatternFault("__error__ cannot be formatted")
        if item.label in seen:
            raise PatternFault(f"multiple label name '{item.label}' not allowed in a single format operation")
        seen.add(item.label)
        if item.is_template:
            _check_template(f"invalid template for label '{item.label}': ", "label", item.source)


def _check_groups(pattern: str) -> None:
    names = [name for name in groups_of(check(pattern)).names if name]
    if not names:
        raise PatternFault("at least one named capture must be supplied")
    for number, name in enumerate(names):
        if name in names[:number]:
            raise PatternFault(f"duplicate extracted label name '{name}'")


def check_leg(operator: str, side: str, leg: Query) -> MetricQuery:
    if isinstance(leg, LogQuery):
        kind = "*syntax.PipelineExpr" if leg.stages else "*syntax.MatchersExpr"
        message = f"unexpected type for {side} leg of binary operation ({operator}): {kind}"
        raise _at(error(message), leg.place)
    return leg


def check_replacement(node: LabelReplace) -> LabelReplace:
    try:
        check(f"^(?:{node.pattern})$")
    except RegexFault as wrong:
        raise _at(error(f"invalid regex in label_replace: {wrong}"), node.place) from None
    return node


def check_range_aggregation(node: RangeAggregation) -> RangeAggregation:
    operation, reason = node.operation, ""
    unwrapped = node.range.unwrap is not None
    if operation == "quantile_over_time" and node.parameter is None:
        reason = f"parameter required for operation {operation}"
    elif operation != "quantile_over_time" and node.parameter is not None:
        reason = f"parameter {_short(node.parameter)} not supported for operation {operation}"
    elif node.grouping is not None and operation not in _GROUPED:
        reason = f"grouping not allowed for {operation} aggregation"
    elif operation in _UNWRAPPED and not unwrapped:
        reason = f"invalid aggregation {operation} without unwrap"
    elif operation in _NEVER_UNWRAPPED and unwrapped:
        reason = f"invalid aggregation {operation} with unwrap"
    if reason:
        raise _at(error(reason), node.place)
    return node


def _short(value: float) -> str:
    return f"{value:.6g}"


def check_aggregation(
    operation: str, parameter: str | None, expression: MetricQuery, grouping: Grouping | None, place: Place
) -> VectorAggregation:
    reason, count = "", None
    if operation in _CHOOSING:
        if parameter is None:
            reason = f"parameter required for operation {operation}"
        elif not parameter.isdecimal():
            reason = f"invalid parameter {operation}({parameter},"
        elif (count := int(parameter)) == 0:
            reason = f"invalid parameter (must be greater than 0) {operation}({parameter}"
        elif operation == "approx_topk" and grouping is not None:
            reason = f"grouping not allowed for {operation} aggregation"
    elif parameter is not None:
        reason = f"unsupported parameter for operation {operation}({parameter},"
    elif operation in ("sort", "sort_desc") and grouping is not None and grouping.labels:
        reason = "sort and sort_desc doesn't allow grouping by "
    if reason:
        raise _at(error(reason), place)
    return VectorAggregation(operation, expression, count, grouping, place)
