"""Tests that different paths of one file are recognised."""

from __future__ import annotations

import pytest

from frazil.maintain.files import normalized_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("s3://bucket/k/x%2Fy", "bucket/k/x%2Fy"),
        ("s3a://bucket/k", "bucket/k"),
        ("s3://bucket/k#1?x=2", "bucket/k#1?x=2"),
        ("abfss://box@account.dfs.core.windows.net/k", "box@account.dfs.core.windows.net/k"),
    ],
)
def test_one_place_has_one_name(path: str, expected: str) -> None:
    assert normalized_path(path) == expected
