"""Lists the words of the language: scopes, intrinsics, keywords."""

from __future__ import annotations

from enum import Enum


class Type(Enum):
    """Is the type of a value. `ATTRIBUTE` stands for one that only each span knows."""

    NIL = "nil"
    ATTRIBUTE = "attribute"
    INT = "int"
    FLOAT = "float"
    STRING = "string"
    BOOLEAN = "bool"
    DURATION = "duration"
    STATUS = "status"
    KIND = "kind"


NUMERIC = frozenset({Type.INT, Type.FLOAT, Type.DURATION})

STATUSES = ("unset", "ok", "error")
"""Their places are the codes of OTLP."""
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")

SCOPES = ("span", "resource", "event", "link", "instrumentation")
"""An attribute without one of these scopes is one of the span, else of its resource."""

INTRINSICS: dict[str, Type] = {
    "duration": Type.DURATION,
    "name": Type.STRING,
    "status": Type.STATUS,
    "statusMessage": Type.STRING,
    "kind": Type.KIND,
    "traceDuration": Type.DURATION,
    "rootName": Type.STRING,
    "rootServiceName": Type.STRING,
    "trace:id": Type.STRING,
    "span:id": Type.STRING,
    "span:parentID": Type.STRING,
    "span:childCount": Type.INT,
    "event:name": Type.STRING,
    "event:timeSinceStart": Type.DURATION,
    "link:traceID": Type.STRING,
    "link:spanID": Type.STRING,
    "instrumentation:name": Type.ATTRIBUTE,
    "instrumentation:version": Type.ATTRIBUTE,
    "nestedSetLeft": Type.INT,
    "nestedSetRight": Type.INT,
    "nestedSetParent": Type.INT,
    "parent": Type.NIL,
}
"""Each intrinsic under the name that it is printed with."""

SCOPED_INTRINSICS: dict[str, dict[str, str]] = {
    "trace": {
        "duration": "traceDuration",
        "rootName": "rootName",
        "rootService": "rootServiceName",
        "id": "trace:id",
    },
    "span": {
        "duration": "duration",
        "name": "name",
        "status": "status",
        "statusMessage": "statusMessage",
        "kind": "kind",
        "id": "span:id",
        "parentID": "span:parentID",
        "childCount": "span:childCount",
    },
    "event": {"name": "event:name", "timeSinceStart": "event:timeSinceStart"},
    "link": {"traceID": "link:traceID", "spanID": "link:spanID"},
    "instrumentation": {"name": "instrumentation:name", "version": "instrumentation:version"},
}
"""By the word before the colon: what may stand after it, and the intrinsic that is meant."""

BARE_INTRINSICS = frozenset(name for name in INTRINSICS if ":" not in name)

AGGREGATES = frozenset({"count", "min", "max", "avg", "sum"})
METRICS_FUNCTIONS = frozenset(
    {
        "rate",
        "count_over_time",
        "min_over_time",
        "max_over_time",
        "sum_over_time",
        "avg_over_time",
        "quantile_over_time",
        "histogram_over_time",
        "compare",
    }
)
SECOND_STAGES = frozenset({"topk", "bottomk"})

KEYWORDS = (
    BARE_INTRINSICS
    | AGGREGATES
    | METRICS_FUNCTIONS
    | SECOND_STAGES
    | {word for words in SCOPED_INTRINSICS.values() for word in words}
    | {*STATUSES, *KINDS}
    | {"true", "false", "nil", "by", "coalesce", "select", "with"}
)

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
"""These compare numbers."""
STRUCTURAL = ("!>>", "!<<", "&>>", "&<<", "!>", "!<", "!~", "&>", "&<", "&~", ">>", "<<", ">", "<", "~")
OPERATORS = (*STRUCTURAL, "!=", "&&", "||", ">=", "<=", "=~", *"!{}()|=,+-*/%^")
"""Each symbol that the language has."""

NAME_ENDS = frozenset("{}()=~!<>&|^,")
"""With white space, these end the name of an attribute."""
