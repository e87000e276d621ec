"""Derives the tree of all settings from their types: which exist, what is allowed, what they mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from frazil.config.model import Config

PREFIX = "FRAZIL"
SEPARATOR = "__"
FILE_SUFFIX = "_file"

KeyPath = tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    description: str
    kind: str
    choices: tuple[str, ...] = ()
    default: object = None
    secret: bool = False
    listed: bool = False
    required: bool = False

    @property
    def allowed(self) -> str:
        return ", ".join(self.choices) or self.kind


@dataclass(frozen=True)
class SettingGroup:
    """A section with known keys, or a mapping from free names to values that are all like `each`."""

    description: str
    children: Mapping[str, Setting | SettingGroup] = field(default_factory=dict)
    each: Setting | SettingGroup | None = None
    optional: bool = False
    placeholder: str = ""
    """The reference shows this in place of a free name."""
    spelling: str = ""
    """This says how a variable spells a free name: `spark`, `iceberg`, or plainly."""
    secrets: bool = False
    """If true, values of free names that sound like a secret are treated as secrets."""

    def child(self, key: str) -> Setting | SettingGroup | None:
        return self.children.get(key, self.each)

    def secret_behind(self, key: str) -> str | None:
        """Returns the secret that `key` names a file for, e.g. `session_token` for `session_token_file`."""
        secret = key.removesuffix(FILE_SUFFIX)
        child = self.children.get(secret)
        return secret if secret != key and isinstance(child, Setting) and child.secret else None


@cache
def setting_tree() -> SettingGroup:
    schema = Config.model_json_schema()
    root = _node(schema, schema["$defs"])
    assert isinstance(root, SettingGroup)
    return root


def all_settings(node: Setting | SettingGroup | None = None, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Setting]]:
    """Yields every setting with its path, in which a free name is shown as `<topic>`."""
    node = setting_tree() if node is None else node
    if isinstance(node, Setting):
        yield path, node
        return
    for key, child in node.children.items():
        yield from all_settings(child, (*path, key))
    if node.each is not None:
        yield from all_settings(node.each, (*path, node.placeholder))


def find_node(path: KeyPath) -> Setting | SettingGroup | None:
    node: Setting | SettingGroup | None = setting_tree()
    for key in path:
        if not isinstance(node, SettingGroup):
            return None
        node = node.child(key)
    return node


def dotted(path: KeyPath) -> str:
    return ".".join(f'"{key}"' if "." in key else key for key in path)


def variable(path: KeyPath) -> str:
    """Returns the environment variable of a setting; a placeholder stays as it is."""
    return SEPARATOR.join((PREFIX, *(key if key.startswith("<") else key.upper() for key in path)))


def suggestion(path: KeyPath) -> str:
    """Returns a hint for a key that does not exist: the nearest known key, else the keys beside it."""
    parent = find_node(path[:-1])
    beside = list(parent.children) if isinstance(parent, SettingGroup) else []
    sibling = _nearest(path[-1], beside, cutoff=0.5)
    if sibling is not None:
        return f"did you mean {dotted((*path[:-1], sibling))}?"
    elsewhere = [dotted(known) for known, _ in all_settings()]
    namesakes = [key for key in elsewhere if key.rpartition(".")[2] == path[-1].lower()]
    nearest = _nearest(dotted(path), namesakes, cutoff=0) or _nearest(dotted(path), elsewhere, cutoff=0.8)
    if nearest is not None:
        return f"did you mean {nearest}?"
    return f"known keys here: {', '.join(beside)}"


def _nearest(wanted: str, names: Iterable[str], cutoff: float) -> str | None:
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in difflib.get_close_matches(wanted.lower(), by_lower, 1, cutoff)), None)


def _node(schema: Mapping[str, Any], defs: Mapping[str, Any], required: bool = False) -> Setting | SettingGroup:
    description = schema.get("description", "")
    default = schema.get("default")
    optional = False
    if "anyOf" in schema:
        alternatives = [option for option in schema["anyOf"] if option.get("type") != "null"]
        optional = len(alternatives) < len(schema["anyOf"])
        (schema,) = alternatives
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
        description = schema.get("description", description)
    if "properties" in schema:
        needed = schema.get("required", ())
        given = default if isinstance(default, Mapping) else {}
        children = {
            key: _node({**child, "default": given[key]} if key in given else child, defs, key in needed)
            for key, child in schema["properties"].items()
        }
        return SettingGroup(description, children, optional=optional)
    if schema.get("type") == "object":
        return SettingGroup(
            description,
            each=_node(schema["additionalProperties"], defs),
            placeholder=f"<{schema['placeholder']}>",
            spelling=schema["spelling"],
            secrets=schema["secrets"],
        )
    return Setting(
        description=description,
        kind=_kind(schema),
        choices=tuple(schema.get("enum", ())),
        default=default,
        secret=schema.get("format") == "password",
        listed=schema.get("type") == "array",
        required=required,
    )


def _kind(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"type": "integer"}:
            return "whole number" + _range(schema, step=1)
        case {"type": "number"}:
            return "number" + _range(schema, step=None)
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "string", "pattern": pattern}:
            return f"text that matches {pattern}"
        case {"type": "string", "format": "path"}:
            return "path"
        case {"type": "string", "format": "password"}:
            return "secret text"
        case {"type": "string"}:
            return "text"
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
    raise TypeError(f"a setting of a type that the reference cannot describe: {dict(schema)}")


def _range(schema: Mapping[str, Any], step: int | None) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if step is not None:
        if "exclusiveMinimum" in schema:
            low = schema["exclusiveMinimum"] + step
        if "exclusiveMaximum" in schema:
            high = schema["exclusiveMaximum"] - step
    elif "exclusiveMinimum" in schema:
        return f" greater than {schema['exclusiveMinimum']}"
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f", at least {low}"
    return f", at most {high}" if high is not None else ""
