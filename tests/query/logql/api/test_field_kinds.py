"""Tests of what kind values are."""

from __future__ import annotations

import pytest

from frazil.query.logql.api.field_kinds import kind_of


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1", "int"),
        ("-12", "int"),
        ("1.5", "float"),
        ("1e3", "float"),
        ("true", "boolean"),
        ("15ms", "duration"),
        ("1h30m", "duration"),
        ("10KB", "bytes"),
        ("2 MiB", "bytes"),
        ("hello", "string"),
        ("", "string"),
    ],
)
def test_kinds(value: str, kind: str) -> None:
    assert kind_of(value) == kind
