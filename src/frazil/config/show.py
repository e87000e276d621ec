"""The settings in force, for people and for programs, with secrets hidden."""

from __future__ import annotations

import re
from typing import Any

import yaml

from frazil.config.keys import Group, KeyPath, Leaf, find
from frazil.config.load import LoadedConfig
from frazil.config.secrets import HIDDEN

# Store options are free text; these are the names by which `obstore` knows its secrets.
_SECRET_OPTION = re.compile(r"secret|token|password|credential|sas|service_account|key(?!.*_id$)", re.IGNORECASE)


def as_data(loaded: LoadedConfig) -> dict[str, Any]:
    data: dict[str, Any] = loaded.config.model_dump(mode="json")
    return {key: _hide((key,), value) for key, value in data.items()}


def as_yaml(loaded: LoadedConfig) -> str:
    """A file that could be loaded again (but for its secrets); what was given says where it came from."""
    lines = _lines(as_data(loaded), (), loaded)
    return "\n".join(lines) + "\n"


def _hide(path: KeyPath, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hide((*path, key), below) for key, below in value.items()}
    node = find(path)
    secret = isinstance(node, Leaf) and node.secret
    secret = secret or (path[:2] == ("store", "options") and _SECRET_OPTION.search(path[-1]) is not None)
    return HIDDEN if secret and value is not None else value


def _lines(data: dict[str, Any], path: KeyPath, loaded: LoadedConfig) -> list[str]:
    lines = []
    indent = "  " * len(path)
    for key, value in data.items():
        below = (*path, key)
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{_scalar(key)}:")
            lines += _lines(value, below, loaded)
            continue
        origin = None if isinstance(find(below), Group) else loaded.origins.get(below)
        comment = f"  # {origin}" if origin else ""
        lines.append(f"{indent}{_scalar(key)}: {_scalar(value)}{comment}")
    return lines


def _scalar(value: object) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**31)
    return text.removesuffix("...\n").rstrip("\n")
