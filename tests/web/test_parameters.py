from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import RequestError
from frazil.web.parameters import FORM, MAX_PARAMETERS, Parameters

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8), st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
def test_all_values_are_found_those_of_the_form_first(
    form: list[tuple[str, str]], query: list[tuple[str, str]]
) -> None:
    found = Parameters.parse(urlencode(query), urlencode(form).encode(), f"{FORM}; charset=utf-8")
    for name in {name for name, _ in form + query}:
        values = [value for each, value in form + query if each == name]
        assert list(found.all(name)) == values
        assert found.one(name) == values[0]


def test_a_body_that_is_no_form_has_no_parameters() -> None:
    found = Parameters.parse("match[]=up&match[]=down&limit=5&full=1", b"limit=7", "application/json")
    assert (found.number("limit"), found.number("start"), found.flag("full")) == (5, None, True)
    assert list(found.all("match[]")) == ["up", "down"]
    assert (found.one("start"), list(found.all("start"))) == (None, [])


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("limit=-1", "limit is a number from 0"),
        ("limit=1e3", "limit is a number from 0"),
        ("limit=" + "9" * 30, "limit is a number from 0"),
        ("limit=", "limit is a number from 0"),
        ("full=maybe", "full is true or false, not 'maybe'"),
        ("other=1", "'other' is not understood here; there are limit, full"),
        ("limit=%ff", "not UTF-8"),
        ("&".join(["limit=1"] * (MAX_PARAMETERS + 1)), "more than 5,000 parameters"),
    ],
)
def test_what_is_wrong_is_said(query: str, problem: str) -> None:
    def read() -> None:
        found = Parameters.parse(query)
        found.check("limit", "full")
        found.number("limit")
        found.flag("full")

    with pytest.raises(RequestError, match=problem):
        read()
