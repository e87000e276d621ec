"""Generates valid values for every setting, from its description in the reference."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st
from pydantic import SecretStr

from frazil.config.model import Config
from frazil.config.setting_tree import KeyPath, Setting, all_settings

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
SETTINGS = list(all_settings())

_ITEMS = st.one_of(NAMES, NAMES.map(lambda name: f"day({name})"), NAMES.map(lambda name: f"bucket(16, {name})"))


GRACE = ("log", "trim_grace_seconds")
"""Queries must end before this time has passed."""


def valid_text(setting: Setting) -> st.SearchStrategy[str]:
    """Generates allowed texts as they would be written in a file or a variable."""
    if setting.choices:
        return st.sampled_from(setting.choices)
    if setting.listed:
        return st.lists(_ITEMS, min_size=1, max_size=3).map(", ".join)
    if setting.kind == "true or false":
        return st.sampled_from(["true", "false"])
    bounds = [int(number) for number in re.findall(r"\d+", setting.kind)]
    if setting.kind.startswith("whole number"):
        low, high = bounds if len(bounds) == 2 else (bounds[0], 10**9)
        return st.integers(low, high).map(str)
    if setting.kind.startswith("number"):
        return st.floats(max(bounds[0], 0.001), 1e9).map(str)
    return NAMES


def all_texts() -> st.SearchStrategy[dict[KeyPath, str]]:
    """Generates a value for every setting at once."""

    def fit(texts: dict[KeyPath, str], name: str) -> dict[KeyPath, str]:
        for key, compression in texts.items():
            level = (*key[:-1], "compression_level")
            if key[-1] != "compression" or level not in texts:
                continue
            if compression == "gzip":
                texts[level] = str(min(int(texts[level]), 9))
            else:
                # The other compressions have no levels.
                texts[key] = "zstd"
        longest = max(float(text) for key, text in texts.items() if _limits_queries(key))
        texts[GRACE] = str(longest + float(texts[GRACE]))
        return {named(key, name): text for key, text in texts.items()}

    return st.builds(fit, st.fixed_dictionaries({path: valid_text(setting) for path, setting in SETTINGS}), NAMES)


def _limits_queries(key: KeyPath) -> bool:
    return key[0] in ("query", "sql") and key[-1] == "timeout_seconds"


def companions(key: KeyPath) -> dict[KeyPath, str]:
    """Returns the settings that must be given along with a setting."""
    needed: dict[KeyPath, str] = {}
    if "derived" in key and key[-1] != "sql":
        needed[*key[: key.index("derived") + 2], "sql"] = "SELECT * FROM batch"
    if key[-1] in ("retention_days", "retention_gb"):
        needed[*key[:-1], "retention_column"] = "time"
    if key[-1].startswith("subscription_retention"):
        needed[*key[:-1], "retention_days"] = "7"
    if key[-1] == "subject_strategy":
        needed[*key[:-1], "record"] = "shop.Order"
    if key[-2:] in (("format", "value"), ("format", "key")):
        needed["kafka", "registry", "url"] = "http://localhost:8081"
    if _limits_queries(key):
        needed[GRACE] = "2e9"
    if key == GRACE:
        needed |= {("query", "timeout_seconds"): "0.0001", ("sql", "timeout_seconds"): "0.0001"}
    if key == ("kafka", "topics"):
        needed["kafka", "bootstrap_servers"] = "localhost:9092"
    if key[1:] in (("tls", "cert"), ("tls", "key")):
        needed[*key[:2], "key" if key[-1] == "cert" else "cert"] = "file.pem"
    if key == ("kafka", "bootstrap_servers"):
        needed["kafka", "topics"] = "orders"
    return needed


def invalid_text(setting: Setting) -> str | None:
    """Returns a text that is not allowed, if there is one."""
    if setting.choices or "number" in setting.kind or setting.kind == "true or false":
        return "certainly not"
    return "?" if "matches" in setting.kind else None


def named(path: KeyPath, name: str) -> KeyPath:
    """Returns the path with its placeholders replaced."""
    names = {"<setting>": f"spark.{name}", "<table>": f"{name}_derived"}
    return tuple(names.get(key, name) if key.startswith("<") else key for key in path)


def nested(texts: dict[KeyPath, str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, value in texts.items():
        inner = root
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return root


def value_at(config: Config, path: KeyPath) -> object:
    value: Any = config
    for key in path:
        value = value[key] if isinstance(value, dict) else getattr(value, key)
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def as_text(value: object) -> str:
    """Returns a value as it would be written."""
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
