"""Tests that docs/architecture.md is true: packages, layers, paths, and the functions of the walk of one record."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "frazil"
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")

_ROW = re.compile(r"^\| `([a-z_]+(?:/[a-z_]+)?)` \| (.+) \|$", re.MULTILINE)
_MODULE = re.compile(r"(?<![\w/.])((?:[a-z_]+/)*[a-z_]+\.py)\b")
_TEST = re.compile(r"`(tests/[^`]*)`")
_STEP = re.compile(r"^ *\d* +((?:[a-z_]+/)*[a-z_]+\.py) ([A-Za-z_]+(?:\.[A-Za-z_]+)?)\b", re.MULTILINE)


def packages() -> set[str]:
    """Returns the packages of the top level and of the first level below it."""
    found = [*SOURCE.glob("*/__init__.py"), *SOURCE.glob("*/*/__init__.py")]
    return {path.parent.relative_to(SOURCE).as_posix() for path in found}


def block(name: str) -> str:
    (found,) = re.findall(rf"^```{name}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def names_in(module: Path) -> set[str]:
    """Returns the functions, classes and methods that a module defines."""
    names = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{each.name}" for each in functions}
    return names


def test_every_package_has_a_row() -> None:
    section = TEXT[TEXT.index("## Packages") : TEXT.index("## Imports point one way")]
    rows = _ROW.findall(section)
    assert sorted(name for name, _ in rows) == sorted(packages())
    assert all(meaning.strip() for _, meaning in rows)


def test_every_module_exists() -> None:
    found = set(_MODULE.findall(re.sub(r"`tests/[^`]*`", "", TEXT)))
    assert len(found) > 40
    assert sorted(name for name in found if not (SOURCE / name).is_file()) == []


def test_every_test_exists() -> None:
    found = set(_TEST.findall(TEXT))
    assert len(found) > 10
    assert sorted(name for name in found if not (ROOT / name).exists()) == []


@pytest.mark.parametrize(("module", "name"), sorted(set(_STEP.findall(block("walk")))))
def test_every_step_of_the_walk_exists(module: str, name: str) -> None:
    assert name in names_in(SOURCE / module)


def test_the_walk_is_found() -> None:
    """Every line of the walk that names a module is a step, so that none is left unchecked."""
    walk = block("walk")
    lines = [line for line in walk.splitlines() if _MODULE.search(line) and "┌──" not in line]
    assert len(_STEP.findall(walk)) == len(lines) > 40


def test_the_layers_are_those_of_import_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    assert block("layers").splitlines() == layers
