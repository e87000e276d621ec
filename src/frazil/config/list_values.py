"""Parses lists that are written as text.

`day(time), bucket(16, id)` has two items, because a comma in parentheses does not separate. `["day(time)",
"bucket(16, id)"]` is the same list, as YAML or JSON writes it.
"""

from __future__ import annotations

import yaml

from frazil.config.setting_tree import Setting, SettingGroup
from frazil.config.yaml_file import Values


def split_lists(group: SettingGroup, values: Values) -> None:
    """Turn text into a list wherever a setting is a list, so that file and variable are written alike."""
    for key, value in values.items():
        child = group.child(key)
        if isinstance(child, SettingGroup) and isinstance(value, dict):
            split_lists(child, value)
        elif isinstance(child, Setting) and child.listed and isinstance(value, str):
            values[key] = split(value)


def split(text: str) -> object:
    """Returns the items. Text that begins like a YAML list but is none stays as it is, and validation refuses it."""
    return _from_yaml(text) if text.lstrip().startswith("[") else _at_commas(text)


def _from_yaml(text: str) -> object:
    try:
        # Scalars stay text, as they do in the file.
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return text


def _at_commas(text: str) -> list[str]:
    items = [""]
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += character
    # Empty items are dropped, such as the one after a last comma.
    return [item.strip() for item in items if item.strip()]
