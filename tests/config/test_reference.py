from __future__ import annotations

from pathlib import Path

import pytest

from frazil.config.danube_storage_keys import COUNTERPARTS, FLAT_KEYS
from frazil.config.reference import main, render
from frazil.config.setting_tree import dotted, variable
from tests.config.samples import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_in_docs_is_fresh() -> None:
    assert main(["--check", str(PAGE)]) == 0


def test_every_setting_is_documented_with_its_variable_and_meaning() -> None:
    own = render().partition("\n## `storage`")[0]
    rows = [line.strip("| ").split(" | ") for line in own.splitlines() if line.startswith("| `")]
    documented = {row[0].strip("`"): row for row in rows}
    assert list(documented) != []
    for path, setting in SETTINGS:
        row = documented.pop(dotted(path))
        assert f"`{variable(path)}`" in row[3]
        assert all(cell.strip() for cell in row)
        assert not setting.secret or "_FILE`" in row[3]
    assert documented == {}


def test_every_word_of_danube_is_documented_with_what_it_means() -> None:
    text = render().partition("\n## `storage`")[2]
    for path, meaning in COUNTERPARTS.items():
        assert any(f"`{dotted(path)}`" in line and f"`{dotted(meaning.key)}`" in line for line in text.splitlines())
    assert all(f"`{name}`" in text for name in FLAT_KEYS)


def test_a_stale_page_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    assert main(["--check", str(page)]) == 1
    assert main([str(page)]) == 0
    assert main(["--check", str(page)]) == 0
    page.write_text("old")
    assert main(["--check", str(page)]) == 1
    assert "run `make docs`" in capsys.readouterr().err
