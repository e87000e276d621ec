"""Applies settings from environment variables: `FRAZIL__LOG__SYNC=always` is `log.sync: always`.

Names are matched without regard to case. A free name (a topic, a store option) matches the one in the file that is
spelled alike when every other character than letters and digits is `_`; otherwise it is taken in lower case. Names of
Spark and Iceberg get their dots and dashes back: Iceberg's by the rule that PyIceberg has for its own variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from frazil.config.secret_files import read_secret
from frazil.config.setting_tree import (
    PREFIX,
    SEPARATOR,
    KeyPath,
    Setting,
    SettingGroup,
    dotted,
    setting_tree,
    suggestion,
    variable,
)
from frazil.config.yaml_file import Document


def apply_environment(document: Document, environ: Mapping[str, str]) -> None:
    """Put the values of the variables over those of the file."""
    taken: dict[KeyPath, str] = {}
    for name in sorted(environ):
        head, _, rest = name.partition(SEPARATOR)
        if head.upper() != PREFIX:
            continue
        found = _resolve(rest.split(SEPARATOR), document)
        if isinstance(found, str):
            document.problems.append(f"{found} ({name})")
            continue
        path, from_file = found
        value = environ[name]
        if not value:
            # Compose files and unit files pass on variables that nobody set as empty ones.
            continue
        if path in taken:
            document.problems.append(f"{dotted(path)}: given twice ({taken[path]} and {name})")
            continue
        taken[path] = name
        if from_file:
            secret = read_secret(path, value, name, document.problems)
            if secret is None:
                continue
            value = secret
        _put(document, path, value, name)


def _resolve(parts: list[str], document: Document) -> tuple[KeyPath, bool] | str:
    """Returns the setting that a variable names, and whether it names a file with the value, or what is wrong."""
    node: Setting | SettingGroup = setting_tree()
    values: object = document.values
    path: KeyPath = ()
    while parts:
        if isinstance(node, Setting):
            return f"{dotted(path)}: has no keys below it, such as {SEPARATOR.join(parts).lower()}"
        here = values if isinstance(values, dict) else {}
        candidates, parts = _next_key(node, here, parts)
        if len(candidates) > 1:
            return f"{dotted(path)}: the name fits {' and '.join(candidates)}; set this key in the file"
        (key,) = candidates
        secret = node.secret_behind(key)
        if secret is not None and not parts:
            return (*path, secret), True
        child = node.child(key)
        path = (*path, key)
        if child is None or not key:
            return f"{dotted(path)}: unknown key; {suggestion(path)}"
        node, values = child, here.get(key)
    if isinstance(node, SettingGroup):
        below = next(iter(node.children), "<name>")
        return f"{dotted(path) or 'top level'}: is a section; set a key of it, such as {variable((*path, below))}"
    return path, False


def _next_key(node: SettingGroup, values: Mapping[str, object], parts: list[str]) -> tuple[list[str], list[str]]:
    """Returns the key that the first parts name (several, when it is not clear), and the parts after it."""
    if node.each is None:
        return [parts[0].lower()], parts[1:]
    longest = len(parts) if isinstance(node.each, Setting) else max(1, len(parts) - 1)
    for count in range(longest, 0, -1):
        matches = _spelled_alike(SEPARATOR.join(parts[:count]), values)
        if matches:
            return matches, parts[count:]
    count = longest if isinstance(node.each, Setting) else 1
    return [_spell(SEPARATOR.join(parts[:count]), node.spelling)], parts[count:]


def _spell(name: str, spelling: str) -> str:
    """Returns how to spell a free name that the file does not mention."""
    if not spelling:
        return name.lower()
    if not name[:1].islower():
        name = name.lower()
    if "." in name:
        return name
    return name.replace(SEPARATOR, ".").replace("_", "." if spelling == "spark" else "-")


def _spelled_alike(wanted: str, names: Iterable[str]) -> list[str]:
    for fold in (str, str.lower, _fold):
        matches = [name for name in names if fold(name) == fold(wanted)]
        if matches:
            return matches
    return []


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _put(document: Document, path: KeyPath, value: str, name: str) -> None:
    values = document.values
    for depth, key in enumerate(path[:-1], start=1):
        below = values.get(key)
        if below is None:
            below = values[key] = {}
            document.origins.setdefault(path[:depth], name)
        if not isinstance(below, dict):
            # The file has a plain value where a section belongs; that is reported when the values are checked.
            return
        values = below
    values[path[-1]] = value
    document.origins[path] = name
