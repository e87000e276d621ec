"""Tasks that take too long are stopped, and no others."""

from __future__ import annotations

import asyncio

import pytest

from frazil.web import deadlines
from frazil.web.deadlines import Deadline


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOOK_SECONDS", 0.01)


def _in(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def _wait(limit: float, work: float) -> str:
    try:
        with Deadline(_in(limit)):
            await asyncio.sleep(work)
    except TimeoutError:
        return "late"
    await asyncio.sleep(0.05)
    return "in time"


def test_only_those_that_are_late_are_stopped() -> None:
    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(_wait(0.05, 10) if number % 2 else _wait(10, 0.01) for number in range(10)))

    assert asyncio.run(all_of_them()) == ["in time", "late"] * 5


def test_a_deadline_may_be_put_off() -> None:
    async def drip() -> None:
        with Deadline(_in(0.05)) as deadline:
            for _ in range(10):
                deadline.at = _in(10)
                await asyncio.sleep(0.02)

    asyncio.run(drip())


def test_a_task_goes_on_after_it_was_late() -> None:
    async def twice() -> None:
        assert await _wait(0.02, 10) == "late"
        assert await _wait(10, 0.02) == "in time"
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(twice())


@pytest.mark.parametrize("late", [False, True])
def test_who_is_cancelled_by_others_ends(late: bool) -> None:
    async def cancelled() -> None:
        found: list[Deadline] = []

        async def work() -> None:
            with Deadline(_in(10)) as deadline:
                found.append(deadline)
                await asyncio.sleep(10)

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if late:
            found[0].pass_by()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_errors_come_as_they_are() -> None:
    async def fail() -> None:
        with Deadline(_in(10)):
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(fail())


def test_each_event_loop_has_its_own() -> None:
    for _ in range(3):
        assert asyncio.run(_wait(0.02, 10)) == "late"
