"""Brings a predicate into a form in which only leaves are negated."""

from __future__ import annotations

from frazil.scan.predicates.tree import And, Not, Or, Predicate

TRUE = And(())
FALSE = Or(())


def negate_leaves(predicate: Predicate, *, negated: bool = False) -> Predicate:
    """Returns a predicate that is true, false and unknown for the same rows, with `Not` at leaves only.

    In this form, a row for which a leaf is unknown can be treated as one for which it is false: above the leaves
    there is nothing that would make true of it. A negated comparison stays as it is, because both `x < 1` and
    `x >= 1` are false for NaN.
    """
    match predicate:
        case Not(child):
            return negate_leaves(child, negated=not negated)
        case And(children) | Or(children):
            parts: list[Predicate] = []
            joins = And if isinstance(predicate, And) != negated else Or
            for child in children:
                part = negate_leaves(child, negated=negated)
                parts += part.children if isinstance(part, joins) else [part]
            return parts[0] if len(parts) == 1 else joins(tuple(parts))
        case _:
            return Not(predicate) if negated else predicate


def all_of(*predicates: Predicate | None) -> Predicate | None:
    """Returns the conjunction of those that are given, or None if none is."""
    given = tuple(each for each in predicates if each is not None)
    return given[0] if len(given) == 1 else And(given) if given else None
