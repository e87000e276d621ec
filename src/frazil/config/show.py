"""Renders the settings in force, for people and for programs, with secrets hidden."""

from __future__ import annotations

from typing import Any

import yaml

from frazil.config.load import LoadedConfig
from frazil.config.redaction import HIDDEN, is_secret, masked
from frazil.config.setting_tree import KeyPath, SettingGroup, find_node


def as_data(loaded: LoadedConfig) -> dict[str, Any]:
    data: dict[str, Any] = loaded.config.model_dump(mode="json")
    return {key: _hide((key,), value) for key, value in data.items()}


def as_yaml(loaded: LoadedConfig) -> str:
    """Returns YAML that could be loaded again (but for its secrets).

    Given values are followed by where they came from.
    """
    lines = _lines(as_data(loaded), (), loaded)
    return "\n".join(lines) + "\n"


def _hide(path: KeyPath, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hide((*path, key), below) for key, below in value.items()}
    if is_secret(path):
        return value if value is None else HIDDEN
    return masked(value) if isinstance(value, str) else value


def _lines(data: dict[str, Any], path: KeyPath, loaded: LoadedConfig) -> list[str]:
    lines = []
    indent = "  " * len(path)
    for key, value in data.items():
        below = (*path, key)
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{_scalar(key)}:")
            lines += _lines(value, below, loaded)
            continue
        origin = None if isinstance(find_node(below), SettingGroup) else loaded.origins.get(below)
        comment = f"  # {origin}" if origin else ""
        lines.append(f"{indent}{_scalar(key)}: {_scalar(value)}{comment}")
    return lines


def _scalar(value: object) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**31)
    return text.removesuffix("...\n").rstrip("\n")
