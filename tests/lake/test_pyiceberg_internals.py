"""Only one module touches what PyIceberg keeps private."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyiceberg
import pytest

import frazil
import pyspark_frazil

INTERNALS = "pyiceberg_internals.py"
OF_TUPLES = {"_replace", "_asdict", "_fields"}
"""Names that are public in spite of their underscore."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_TUPLES


def sources(package: object) -> Iterator[tuple[Path, ast.Module]]:
    (folder,) = package.__path__  # type: ignore[attr-defined]
    for path in sorted(Path(folder).rglob("*.py")):
        yield path, ast.parse(path.read_text())


def defined(tree: ast.AST) -> set[str]:
    """Private names that a module or a class defines, attributes included."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self")):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
    return {name for name in found if is_private(name)}


@cache
def private_names() -> frozenset[str]:
    return frozenset(name for _, tree in sources(pyiceberg) for name in defined(tree))


def imported(tree: ast.Module) -> dict[str, str]:
    """Names that come from PyIceberg, with the module that each comes from."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pyiceberg"
        for alias in node.names
    }


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each use of a private name of PyIceberg, with its line."""
    modules = imported(tree)
    own = defined(tree)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "pyiceberg":
                yield from ((node.lineno, alias.name) for alias in names if is_private(alias.name))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules and is_private(attribute):
                yield node.lineno, f"{name}.{attribute}"
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in modules:
                yield node.lineno, f"{name}.{node.attr} is replaced"
            case ast.Attribute(attr=attribute) if attribute in private_names() - own:
                yield node.lineno, ast.unparse(node)
            case ast.ClassDef(bases=bases):
                yield from inherited(node, [ast.unparse(base) for base in bases], modules)


def inherited(node: ast.ClassDef, bases: list[str], modules: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Private names that a class has from a class of PyIceberg, and uses or replaces."""
    for base in bases:
        if base not in modules:
            continue
        theirs = {
            name
            for each in getattr(importlib.import_module(modules[base]), base).__mro__
            if each.__module__.split(".")[0] == "pyiceberg"
            for name in source_of(each.__module__)
        }
        for part in ast.walk(node):
            match part:
                case ast.FunctionDef(name=name) if name in theirs:
                    yield part.lineno, f"{node.name}.{name} replaces a method of {base}"
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in theirs - defined(node):
                    yield part.lineno, f"{node.name} uses {name} of {base}"


@cache
def source_of(module: str) -> frozenset[str]:
    path = importlib.import_module(module).__file__
    assert path is not None
    return frozenset(defined(ast.parse(Path(path).read_text())))


def test_no_other_module_uses_private_names_of_pyiceberg() -> None:
    found = [
        f"{path}:{line}: {what}"
        for package in (frazil, pyspark_frazil)
        for path, tree in sources(package)
        if path.name != INTERNALS
        for line, what in uses(tree)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "from pyiceberg.table.update.snapshot import _DeleteFiles",
        "from pyiceberg.io import pyarrow as reading\nreading._get_file_format(1)",
        "from pyiceberg.io import pyarrow as reading\nreading.ArrowProjectionVisitor = 1",
        "def f(table):\n    table.transaction()._stage(())",
        "from pyiceberg.table import Transaction\nclass T(Transaction):\n    def f(self): self._table",
        "from pyiceberg.catalog.rest import RestCatalog\nclass C(RestCatalog):\n    def _create_session(self): ...",
    ],
)
def test_a_use_is_found(text: str) -> None:
    assert list(uses(ast.parse(text)))


def test_what_is_our_own_is_no_use_of_it() -> None:
    text = """
from pyiceberg.table import Transaction

class Own(Transaction):
    def __init__(self, place):
        self._mine = place._replace(a=1)

    def use(self):
        return self._mine, os._exit
"""
    assert not list(uses(ast.parse(text)))
