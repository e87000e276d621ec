"""Prints a tree over several lines where one would be too long, as `format_query` does."""

from __future__ import annotations

from frazil.query.promql.parse.tree import Aggregate, Binary, Call, Node, Paren, Subquery, Unary

LONGEST_LINE = 100
INDENT = "  "


def pretty(node: Node, level: int = 0) -> str:
    """Prints a node that begins at a level of indentation."""
    text, margin = str(node), INDENT * level
    if isinstance(node, Unary):
        return f"{margin}{node.op}{pretty(node.expression, level).strip()}"
    if isinstance(node, Subquery) and len(text.encode()) <= LONGEST_LINE:
        return text
    if len(text.encode()) <= LONGEST_LINE:
        return margin + text
    if isinstance(node, Subquery):
        return pretty(node.expression, level) + node.print_suffix()
    if isinstance(node, Aggregate):
        parameter = "" if node.parameter is None else pretty(node.parameter, level + 1) + ",\n"
        return f"{margin}{node.print_operator()}(\n{parameter}{pretty(node.expression, level + 1)}\n{margin})"
    if isinstance(node, Binary):
        left, right = pretty(node.left, level + 1), pretty(node.right, level + 1)
        return f"{left}\n{margin}{node.print_operator()}\n{right}"
    if isinstance(node, Call):
        arguments = ",\n".join(pretty(a, level + 1) for a in node.arguments)
        return f"{margin}{node.function}(\n{arguments}\n{margin})"
    if isinstance(node, Paren):
        return f"{margin}(\n{pretty(node.expression, level + 1)}\n{margin})"
    return margin + text
