"""Answers what a query looks like, printed well or as a tree."""

from __future__ import annotations

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.promql.api.envelope import BadParameter, data, with_errors
from frazil.query.promql.api.parameters import parameters, text
from frazil.query.promql.api.settings import options_of
from frazil.query.promql.api.tree_json import tree
from frazil.query.promql.parse import parse
from frazil.query.promql.parse.pretty import pretty
from frazil.query.promql.parse.tree import Node
from frazil.query.promql.problems import ParseError


@with_errors
def format_query(request: QueryRequest, context: QueryContext) -> Reply:
    return data(pretty(_parsed(request, context)))


@with_errors
def parse_query(request: QueryRequest, context: QueryContext) -> Reply:
    return data(tree(_parsed(request, context)))


def _parsed(request: QueryRequest, context: QueryContext) -> Node:
    try:
        return parse(text(parameters(request), "query"), options_of(context).parser)
    except ParseError as error:
        raise BadParameter("query", error) from None
