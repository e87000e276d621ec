"""Log queries give the lines and labels that the files in `golden` say."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import QueryError
from frazil.query.logql.engine import Engine
from tests.query.logql.golden_cases import SECOND, GoldenCase, golden_cases, shown

_CASES = golden_cases(Path(__file__).parent / "golden")


@pytest.mark.parametrize("case", _CASES, ids=[f"{case.place} {case.query}" for case in _CASES])
def test_lines_and_labels(case: GoldenCase) -> None:
    engine = Engine(case.source)
    if case.error:
        with pytest.raises(QueryError) as raised:
            engine.logs(case.query, 0, 1000 * SECOND, 100)
        assert case.error in str(raised.value)
        return
    found = engine.logs(case.query, 0, 1000 * SECOND, 100, newest_first=False)
    assert [shown(entry).rstrip() for entry in found.entries] == [line.rstrip() for line in case.expected]
