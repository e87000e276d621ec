"""Turns the text of a query into a tree, or says at which line and column it cannot."""

from __future__ import annotations

from frazil.query.promql.parse.parser import ParserOptions, parse, parse_metric, parse_selector

__all__ = ["ParserOptions", "parse", "parse_metric", "parse_selector"]
