"""Reads selectors of streams where an endpoint takes no whole query."""

from __future__ import annotations

from frazil.errors import QueryError
from frazil.query.logql.parse.lexer import tokens_of
from frazil.query.logql.parse.log_parser import parse_log_query
from frazil.query.logql.parse.log_tree import LogQuery, Matcher
from frazil.query.logql.parse.parser import parse
from frazil.query.logql.parse.token_stream import TokenStream
from frazil.query.logql.parse.tokens import END

ONLY_MATCHERS = "only label matchers are supported"
Matchers = tuple[Matcher, ...]


def matchers_of(text: str | None) -> Matchers:
    """Returns the matchers of a selector. Without a text, and with `{}`, there are none, which all streams fit."""
    if not text or _is_empty(text):
        return ()
    query = parse(text)
    if not isinstance(query, LogQuery) or query.stages:
        raise QueryError(ONLY_MATCHERS)
    return query.selector.matchers


def _is_empty(text: str) -> bool:
    """Returns whether the text is `{}`, which is no valid query."""
    try:
        tokens = TokenStream(tokens_of(text))
        query = parse_log_query(tokens)
    except QueryError:
        return False
    return tokens.next.kind == END and not query.selector.matchers and not query.stages
