"""Reads the settings from a YAML file and the environment, and reports all that is wrong with them at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from frazil.config.danube_storage import translate_storage
from frazil.config.environment import apply_environment
from frazil.config.invocation import Invocation
from frazil.config.list_values import split_lists
from frazil.config.model import Config
from frazil.config.redaction import HIDDEN, is_secret, masked
from frazil.config.secret_files import resolve_secret_files
from frazil.config.setting_tree import KeyPath, Setting, SettingGroup, dotted, find_node, setting_tree, suggestion
from frazil.config.yaml_file import Document, Origins, Values, described, read_document
from frazil.errors import ConfigError

DEFAULT_FILE = Path("frazil.yaml")


@dataclass(frozen=True)
class LoadedConfig:
    config: Config
    path: Path | None
    """This is the file that was read, if any."""
    origins: Mapping[KeyPath, str]
    """This says where each given key came from: a line of the file or an environment variable."""


def load_config(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> LoadedConfig:
    """Read `path`, else `frazil.yaml` if it exists, else take the defaults; then apply the environment."""
    if path is None and DEFAULT_FILE.exists():
        path = DEFAULT_FILE
    document = read_document(path) if path is not None else Document()
    translate_storage(document)
    resolve_secret_files(document)
    apply_environment(document, environ)
    _open_empty_sections(setting_tree(), document.values)
    split_lists(setting_tree(), document.values)
    config = _validate(document)
    if config is None or document.problems:
        raise ConfigError(_report(document.problems))
    given = {
        name: environ[name]
        for key, name in document.origins.items()
        if name in environ and (not is_secret(key) or name.upper().endswith("_FILE"))
    }
    return LoadedConfig(config.invoked(Invocation(path, given)), path, document.origins)


def _open_empty_sections(group: SettingGroup, values: Values) -> None:
    """Replace empty sections by empty mappings: `log:` with nothing below it means the section's defaults."""
    for key, value in values.items():
        child = group.child(key)
        if not isinstance(child, SettingGroup):
            continue
        if value is None and not child.optional:
            value = values[key] = {}
        if isinstance(value, dict):
            _open_empty_sections(child, value)


def _validate(document: Document) -> Config | None:
    try:
        return Config.model_validate(document.values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        document.problems.extend(_explain(detail, document.origins) for detail in details)
        return None


def _explain(detail: ErrorDetails, origins: Origins) -> str:
    path = tuple(str(part) for part in detail["loc"])
    if detail["type"] == "setting":
        # `setting_problem` made this error; its key is relative to where the problem was noticed.
        path = (*path, *detail["ctx"]["key"])
        return f"{dotted(path)}: {detail['msg']}{_where(path, origins)}"
    node = find_node(path)
    if node is None and isinstance(holder := find_node(path[:-1]), Setting) and holder.listed:
        node = Setting(holder.description, holder.kind.removeprefix("list of "), holder.choices)
    given = HIDDEN if is_secret(path) else masked(described(detail["input"]))
    match node:
        case None:
            text = f"unknown key; {suggestion(path)}"
        case Setting() if detail["type"] == "missing":
            text = f"must be given; allowed: {node.allowed}"
        case Setting() if isinstance(below := detail["input"], dict) and _has_dotted_names(path[:-1]):
            name = ".".join((path[-1], *map(str, list(below)[:1])))
            text = f"{given} is not allowed; a name with dots is one key here, such as {name}: …"
        case Setting():
            text = f"{given} is not allowed; allowed: {node.allowed}"
        case SettingGroup(children=children) if detail["type"] in ("model_type", "dict_type"):
            text = f"{given} is not a section; its keys: {', '.join(children) or 'names of your choice'}"
        case SettingGroup():
            text = masked(detail["msg"])
    return f"{dotted(path)}: {text}{_where(path, origins)}"


def _has_dotted_names(path: KeyPath) -> bool:
    group = find_node(path)
    return isinstance(group, SettingGroup) and bool(group.spelling)


def _where(path: KeyPath, origins: Origins) -> str:
    while path:
        if path in origins:
            return f" ({origins[path]})"
        path = path[:-1]
    return ""


def _report(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} problems in the configuration:\n" + "\n".join(f"  {problem}" for problem in problems)
