"""Runs the public lists of queries, where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import traceql

CORPUS = Path(__file__).parents[4] / "shared" / "corpora" / "traceql"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora are not beside the checkout")
def test_every_query_is_accepted_or_refused_at_the_right_stage() -> None:
    cases = list(traceql.cases(CORPUS))
    assert len(cases) > 300
    assert [(case.query, wrong) for case in cases if (wrong := traceql.failure(case))] == []
