from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FrazilError
from frazil.lake.commit.attempts import Attempt, attempt_folder, attempt_time_ms, new_attempt
from frazil.lake.commit.ranges import Range

MOMENTS = st.integers(0, 4_000_000_000_000)


@given(MOMENTS, st.integers())
def test_an_id_tells_its_time(now_ms: int, seed: int) -> None:
    assert attempt_time_ms(new_attempt(now_ms, random.Random(seed))) == now_ms


@given(st.lists(MOMENTS, unique=True))
def test_ids_sort_by_time(moments: list[int]) -> None:
    ids = [new_attempt(moment, random.Random(moment)) for moment in sorted(moments)]
    assert ids == sorted(ids)


def test_two_attempts_of_one_moment_differ() -> None:
    rng = random.Random(1)
    assert new_attempt(1_800_000_000_123, rng) != new_attempt(1_800_000_000_123, rng)
    assert new_attempt(1_800_000_000_123, rng).startswith("20270115T080000123-")


def test_the_folder_is_below_the_table() -> None:
    assert (
        attempt_folder("s3://b/w/t/", "20261115T224611123-9f3a7c21") == "s3://b/w/t/data/20261115T224611123-9f3a7c21"
    )


@pytest.mark.parametrize("text", ["", "x", "20261115T224611123", "20261315T224611123-9f3a7c21", "-"])
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(FrazilError, match="not the id of an attempt"):
        attempt_time_ms(text)


@pytest.mark.parametrize("ranges", [(), (Range(0, 5, 5, "e"),), (Range(0, 0, 1, "e"), Range(0, 1, 2, "e"))])
def test_an_attempt_moves_something_of_each_partition_once(ranges: tuple[Range, ...]) -> None:
    with pytest.raises(FrazilError, match="range"):
        Attempt("20261115T224611123-9f3a7c21", ranges, (), uuid.uuid4(), 0, 0)
