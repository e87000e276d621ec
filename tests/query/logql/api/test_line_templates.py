"""Tests which lines have a pattern in common."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.logql.api import line_templates
from frazil.query.logql.api.line_templates import LineTemplates, masked


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("order 17 is late", "order <_> is late"),
        ("user=5 took=12ms ok", "user=<_> took=<_> ok"),
        ("GET /a/b7/c from 10.0.0.1:8080", "GET /a/<_>/c from <_>"),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301.", "id <_>"),
        ('{"level": "info", "msg": "failed 3 times", "n": 1}', "<_>failed <_> times<_>"),
        ('{"level": "info", "n": 1}', "<_>"),
        ("  plain words ", "plain words"),
        ("", ""),
    ],
)
def test_words_with_digits_are_variable(line: str, text: str) -> None:
    assert masked(pa.array([line])).to_list() == [text]


def test_texts_that_differ_in_few_words_have_one_template() -> None:
    templates = LineTemplates()
    numbers = [templates.number_of(f"user {name} has logged in", "info") for name in ("ann", "bob", "eve")]
    assert len(set(numbers)) == 1
    assert templates.text(numbers[0] or 0) == "user <_> has logged in"
    others = {templates.number_of(text, "info") for text in ("user has gone", "disk is full now ok", "")}
    assert len(others) == 3
    assert templates.number_of("user ann has logged in", "error") not in {*numbers, *others}


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_templates, "MOST_TEMPLATES", 2)
    templates = LineTemplates()
    found = [templates.number_of(text, "") for text in ("a b", "c d", "e f", "a x")]
    assert found == [0, 1, None, 0]


@given(st.lists(st.text(max_size=40), max_size=20))
def test_any_line_has_a_template(lines: list[str]) -> None:
    templates = LineTemplates()
    texts = masked(pa.array(lines, pa.string())).to_list()
    numbers = [templates.number_of(text, "") for text in texts]
    assert [templates.number_of(text, "") for text in texts] == numbers
    assert all(number is not None and templates.text(number) is not None for number in numbers)
