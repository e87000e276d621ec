"""The tests have the same folders as the code, and none of them leans on another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "frazil"
MOST_MODULES = 22

BESIDE_THE_TREE = {"conformance", "faults", "fixtures", "fuzz", "pyspark_frazil", "servers"}
"""Folders of tests that are about the whole, and what they share."""

MODULES = sorted(TESTS.rglob("*.py"))


def test_no_test_module_is_imported() -> None:
    importing = re.compile(r"from tests\.(?:\w+\.)*test_\w+ import|import tests\.(?:\w+\.)*test_\w+")
    found = [
        f"{module.relative_to(TESTS)}: {line.strip()}"
        for module in MODULES
        for line in module.read_text().splitlines()
        if importing.search(line) and module != Path(__file__)
    ]
    assert found == []


def test_folders_mirror_the_tree() -> None:
    folders = {module.parent.relative_to(TESTS) for module in MODULES if module.name.startswith("test_")}
    strange = {
        str(folder)
        for folder in folders
        if folder.parts and folder.parts[0] not in BESIDE_THE_TREE and not (SOURCE / folder).is_dir()
    }
    assert strange == set()


@pytest.mark.parametrize("folder", sorted({str(each.parent.relative_to(SOURCE)) for each in SOURCE.rglob("*.py")}))
def test_no_folder_is_crowded(folder: str) -> None:
    assert len(list((SOURCE / folder).glob("*.py"))) <= MOST_MODULES
