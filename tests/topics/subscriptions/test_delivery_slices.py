from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.topics.messages import Message, to_batch
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.delivery_slices import split, take_within, total_bytes

SIZES = st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=20), max_size=6)


def delivered(sizes: list[list[int]]) -> list[Delivered]:
    runs, first = [], 5
    for number, run in enumerate(sizes):
        batch = to_batch([Message(bytes(each)) for each in run], 0)
        runs.append(Delivered(1, number % 2, first, batch, "e", 1 + number))
        first += len(run) + 1
    return runs


def messages(runs: list[Delivered]) -> list[tuple[int, int, int, int]]:
    return [
        (run.partition, offset, run.deliveries, len(payload.as_py()))
        for run in runs
        for offset, payload in enumerate(run.batch.column("payload"), run.first)
    ]


@given(SIZES, st.integers(1, 20_000))
def test_parts_are_the_whole_and_no_larger_than_asked_for(sizes: list[list[int]], most: int) -> None:
    runs = delivered(sizes)
    taken, rest = take_within(runs, most)
    assert messages([*taken, *rest]) == messages(runs)
    assert bool(taken) == bool(runs)
    assert total_bytes(taken) <= most or len(messages(taken)) == 1
    cut = [piece for run in runs for piece in split(run, most)]
    assert messages(cut) == messages(runs)
    assert all(total_bytes([piece]) <= most or len(messages([piece])) == 1 for piece in cut)
