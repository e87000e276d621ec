"""Remembers what a function made of short texts, as queries and regular expressions are that come again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

SHORT = 4096
"""Longer texts, counted together with others that are given, are not remembered: they rarely come again, and a
thousand of them could take gigabytes."""


def remember_short(most: int) -> Callable[[Callable[Concatenate[str, P], T]], Callable[Concatenate[str, P], T]]:
    """Decorates a function of a text, and of whatever else. `most` results are kept, those that were used last."""

    def decorate(function: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
        remembering = cast(Callable[Concatenate[str, P], T], lru_cache(most)(function))

        @wraps(function)
        def remembered(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
            length = len(text) + sum(len(each) for each in args if isinstance(each, str))
            return (remembering if length <= SHORT else function)(text, *args, **kwargs)

        return remembered

    return decorate
