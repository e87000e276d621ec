"""Valid values for every setting, by its description in the reference."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st
from pydantic import SecretStr

from frazil.config.keys import KeyPath, Leaf, leaves
from frazil.config.model import Config

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
LEAVES = list(leaves())


def valid_text(leaf: Leaf) -> st.SearchStrategy[str]:
    """Texts that are allowed, as they would be written in a file or a variable."""
    if leaf.choices:
        return st.sampled_from(leaf.choices)
    if leaf.kind.startswith("whole number"):
        bounds = [int(number) for number in re.findall(r"\d+", leaf.kind)]
        low, high = bounds if len(bounds) == 2 else (bounds[0], 10**9)
        return st.integers(low, high).map(str)
    if leaf.kind.startswith("number greater than 0"):
        return st.floats(0.001, 1e9).map(str)
    return NAMES


def invalid_text(leaf: Leaf) -> str | None:
    """A text that is not allowed, if there is one."""
    if leaf.choices or "number" in leaf.kind:
        return "certainly not"
    return "?" if "matches" in leaf.kind else None


def named(path: KeyPath, name: str) -> KeyPath:
    """The path with its placeholder replaced."""
    return tuple(name if key.startswith("<") else key for key in path)


def nested(path: KeyPath, value: str) -> dict[str, Any]:
    inner: Any = value
    for key in reversed(path):
        inner = {key: inner}
    return dict(inner)


def value_at(config: Config, path: KeyPath) -> object:
    value: Any = config
    for key in path:
        value = value[key] if isinstance(value, dict) else getattr(value, key)
    return value.get_secret_value() if isinstance(value, SecretStr) else value
