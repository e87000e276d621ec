from __future__ import annotations

import asyncio

import pytest

from frazil.topics.read.memory_budget import LEAST_BYTES, LargeMessageQueue, MemoryBudget

LIMIT = 64 * LEAST_BYTES


@pytest.mark.parametrize("holders", [1, 3, 20, 500])
def test_many_holders_have_equal_parts_and_one_has_half(holders: int) -> None:
    memory = MemoryBudget(LIMIT)
    accounts = [memory.account() for _ in range(holders)]
    growing = True
    while growing:
        growing = False
        for account in accounts:
            if account.held < account.allowed:
                account.add(1024)
                growing = True
    held = sorted(account.held for account in accounts)
    assert held[0] >= LEAST_BYTES
    assert held[-1] - held[0] <= 1024
    assert memory.held <= LIMIT + holders * LEAST_BYTES
    for account in accounts:
        account.close()
        account.add(-5)
    assert memory.held == 0


def test_whoever_asked_first_gets_room_first() -> None:
    async def body() -> None:
        queue, order = LargeMessageQueue(10), list[int]()
        leave = [asyncio.Event() for _ in range(4)]

        async def hold(number: int, size: int) -> None:
            async with queue.room(size):
                order.append(number)
                await leave[number].wait()

        # The first is larger than all room. The second waits for it, and the third, which would fit, waits for the
        # second.
        tasks = [asyncio.create_task(hold(number, size)) for number, size in enumerate([100, 8, 2, 1])]
        await asyncio.sleep(0)
        assert (order, queue.crowded) == ([0], True)
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        leave[0].set()
        await tasks[0]
        for _ in range(3):
            await asyncio.sleep(0)
        assert (order, queue.crowded) == ([0, 2, 3], False)
        for event in leave:
            event.set()
        await asyncio.gather(*tasks[2:])
        assert queue._used == 0

    asyncio.run(body())


def test_who_is_cancelled_when_its_turn_comes_takes_no_room() -> None:
    async def body() -> None:
        queue = LargeMessageQueue(10)

        async def hold() -> None:
            async with queue.room(10):
                pass

        async with queue.room(10):
            waiting = asyncio.create_task(hold())
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (queue._used, queue.crowded) == (0, False)

    asyncio.run(body())
