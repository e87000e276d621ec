"""Reads a YAML file as nested values, and remembers the line of every key.

Scalars stay text: the type of a setting decides what it means, not YAML's guess (`no`, `0123`, `12:30`). So a file
and an environment variable say the same thing with the same characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from frazil.config.setting_tree import KeyPath, dotted
from frazil.errors import ConfigError

Values = dict[str, object]
Origins = dict[KeyPath, str]

# This is far more than all settings of thousands of topics need. It stops aliases that multiply.
_MAX_NODES = 100_000

_TAG = "tag:yaml.org,2002:"
_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")}


@dataclass
class Document:
    values: Values = field(default_factory=dict)
    origins: Origins = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_document(path: Path) -> Document:
    text = _read_text(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return _Walk(path).document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unknown line"
        raise ConfigError(f"{path}, {where}: not valid YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise ConfigError(
            f"{path}, line {line}, column {column}: not valid YAML: the character U+{ord(text[error.position]):04X} "
            "is not allowed"
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such configuration file") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path}: this is a folder; the configuration is one YAML file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text (byte {error.start})") from error


class _Walk:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._document = Document()
        self._nodes = 0

    def document(self, root: yaml.Node | None) -> Document:
        if root is None:
            return self._document
        value = self._value(root, ())
        if isinstance(value, dict):
            self._document.values = value
        elif value is not None:
            raise ConfigError(f"{self._path}: must be a mapping of keys to values, not {described(value)}")
        return self._document

    def _value(self, node: yaml.Node, path: KeyPath) -> object:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise ConfigError(f"{self._path}: more than {_MAX_NODES} values")
        if node.tag not in _TAGS:
            self._problem(path, f"the tag {node.tag} is not supported", node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, str(index))) for index, item in enumerate(node.value)]
        return None if node.tag == _TAG + "null" else node.value

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> Values:
        values: Values = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(path, "a key must be text", key_node)
                continue
            key = key_node.value
            below = (*path, key)
            if key in values:
                self._problem(below, f"given twice, first in line {lines[key]}", key_node)
                continue
            lines[key] = key_node.start_mark.line + 1
            self._document.origins[below] = self._where(key_node)
            values[key] = self._value(value_node, below)
        return values

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}, line {node.start_mark.line + 1}"

    def _problem(self, path: KeyPath, text: str, node: yaml.Node) -> None:
        self._document.problems.append(f"{dotted(path) or 'top level'}: {text} ({self._where(node)})")


def described(value: object) -> str:
    """Describes a value in words, for messages."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return repr(value)
