"""Tests that every Python name of ours that README.md and docs tell people to use can be imported.

docs/architecture.md is left out: it describes the inside, and `test_architecture_page` checks it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "architecture.md"})]
OURS = ("frazil", "pyspark_frazil")

PROMISED = {
    "frazil",
    "frazil.config.load.load_config",
    "frazil.hot.queries.HotBuffer",
    "frazil.lake",
    "frazil.lake.catalog.lake.Lake",
    "frazil.lake.commit.commit.commit_add_files",
    "frazil.lake.snapshot_changes.plan_scan",
    "frazil.log.follow",
    "frazil.log.log.Log",
    "frazil.query.lookup.ColdLookup",
    "frazil.read",
    "frazil.topics",
    "frazil.topics.EARLIEST",
    "frazil.topics.Kind",
    "frazil.topics.Message",
    "frazil.topics.from_batch",
    "frazil.topics.open_topics",
}
"""The pages name at least these, so that the test cannot pass because it finds nothing."""

NOT_PYTHON = {"frazil.hello", "frazil.orders", "frazil.sensors_avro", "frazil.version", "frazil.yaml"}
"""These look like Python names, but are tables, a property of tables, and a file."""

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_DOTTED = re.compile(rf"((?:{'|'.join(OURS)})(?:\.[A-Za-z_]\w*)+)(?:\(.*\))?")


def names_in_code(code: str) -> Iterator[str]:
    """Yields names that a program imports, and attributes of our packages that it uses."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names=imported):
                yield from (each.name for each in imported)
            case ast.ImportFrom(module=str(module), names=imported):
                yield from (f"{module}.{each.name}" for each in imported)
            case ast.Attribute():
                yield ast.unparse(node)


def names_in(page: Path) -> set[str]:
    text = page.read_text("utf-8")
    blocks = [code for language, code in _FENCED.findall(text) if language == "python"]
    inline = map(_DOTTED.fullmatch, _INLINE.findall(_FENCED.sub("", text)))
    found = {name for code in blocks for name in names_in_code(code)} | {match[1] for match in inline if match}
    return {name for name in found if re.fullmatch(r"[\w.]+", name) and name.split(".")[0] in OURS} - NOT_PYTHON


def find(name: str) -> object:
    """Imports a module, or the attribute of a module, by its full name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        module, _, attribute = name.rpartition(".")
        if not module:
            raise
        return getattr(find(module), attribute)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_names_can_be_imported(page: Path) -> None:
    missing = {}
    for name in sorted(names_in(page)):
        try:
            find(name)
        except (ImportError, AttributeError) as error:
            missing[name] = str(error)
    assert not missing


def test_the_pages_name_what_is_promised() -> None:
    assert set().union(*map(names_in, PAGES)) >= PROMISED


def test_a_missing_name_is_noticed() -> None:
    for name in ("frazil.log.log.Lgo", "frazil.no_such_module.Name", "frazil.raed"):
        with pytest.raises((ImportError, AttributeError)):
            find(name)


@pytest.mark.parametrize("package", ["frazil", "frazil.query.lookup", "frazil.topics"])
def test_exported_names_can_be_imported(package: str) -> None:
    """These packages load what they export when it is first used, so that a moved module shows only then."""
    module = import_module(package)
    for name in module.__all__:
        getattr(module, name)
