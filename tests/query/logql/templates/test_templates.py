"""Templates give the texts of `golden/templates.tsv`: `!` begins an error of a row, `?` one of the template."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.query.logql.templates.interpreter import Row, render
from frazil.query.logql.templates.lexer import TemplateFault
from frazil.query.logql.templates.parser import compiled
from frazil.query.logql.templates.values import ExecutionFault

ROW = Row({"a": "x", "n": "70"}, "the line", 1_794_944_825_123_456_789)
CASES = [
    line.split("\t")
    for line in (Path(__file__).parents[1] / "golden" / "templates.tsv").read_text().splitlines()
    if line
]


@pytest.mark.parametrize(("template", "expected"), CASES)
def test_template(template: str, expected: str) -> None:
    if expected.startswith("?"):
        with pytest.raises(TemplateFault) as wrong:
            compiled("line", template)
        assert expected[1:] in str(wrong.value)
    elif expected.startswith("!"):
        with pytest.raises(ExecutionFault) as failed:
            render(compiled("line", template), ROW)
        assert expected[1:] in str(failed.value)
    else:
        assert render(compiled("line", template), ROW) == expected.replace(r"\n", "\n")


def test_a_template_that_would_never_end_does() -> None:
    with pytest.raises(ExecutionFault, match="steps"):
        render(compiled("line", "{{ range 1000000000 }}{{ if false }}{{ end }}{{ end }}"), ROW)
    with pytest.raises(ExecutionFault, match="depth"):
        render(compiled("line", '{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}'), ROW)
