"""Reads the query that narrows down tags. It may be unfinished: what can be read of it is used."""

from __future__ import annotations

from frazil.query.traceql.engine.seeds import TRUE, seed_of
from frazil.query.traceql.errors import TraceQLError
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Binary, Expression, Filter, Pipeline
from frazil.query.traceql.validate.check import validate


def tag_filter(text: str) -> Expression:
    """Returns what spans must fulfil whose tags are wanted. A query that nobody can read leaves nothing out."""
    whole = _readable(text)
    if whole is not None:
        return whole
    inner = text.strip().removeprefix("{")
    inner = inner.rpartition("}")[0] or inner
    found: Expression = TRUE
    for part in inner.split("&&"):
        condition = _readable("{" + part + "}")
        if condition is not None and condition != TRUE:
            found = condition if found == TRUE else Binary("&&", found, condition)
    return found


def _readable(text: str) -> Expression | None:
    try:
        query = parse(text)
        validate(query)
    except TraceQLError:
        return None
    if not isinstance(query.body, Pipeline) or not isinstance(query.body.stages[0], Filter):
        return None
    return seed_of(query.body.stages[0])
