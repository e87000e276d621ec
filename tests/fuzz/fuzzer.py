"""Sends damaged requests to every door of a process, among good ones that must be found again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

from tests.fuzz.answers import INTERNAL, Answer
from tests.fuzz.call import Call
from tests.fuzz.mutation import damaged
from tests.fuzz.senders import BAD, TENANTS, TOPIC, Sender, Targets

CONCURRENT_REQUESTS = 60
"""This many requests are sent at once; a third of them are good."""
TRIES = 5
"""A request may be told to come again this often."""
PAUSE_SECONDS = 0.2
GOOD = "good_"
NO_ANSWER = 599
"""This status stands for no answer at all."""

_Sent = TypeVar("_Sent", Sender, Call)
Stored = dict[tuple[str, str, str], list[str]]
"""Texts of good requests that were acknowledged, by topic, column and tenant."""


class Fuzzer:
    def __init__(self, sent: Targets, chance: random.Random, hidden: str) -> None:
        """`hidden` is a folder of the server that no answer may mention."""
        self._senders, self._calls = sent.senders, _by_door(sent.calls)
        self._doors = _by_door(sent.senders)
        self._chance = chance
        self._hidden = (*INTERNAL, hidden)
        self._number = 0
        self.stored: Stored = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        """Answers that should not have been given."""

    async def round(self) -> None:
        """Sends one round of requests. Everything is chosen before any is sent, so that a seed repeats them."""
        sent = []
        for _ in range(CONCURRENT_REQUESTS // 3):
            sent += [self._good(self._some_sender()), self._bad(self._some_sender()), self._call()]
        await asyncio.gather(*sent)

    def _some_sender(self) -> Sender:
        """Chooses a sender. All doors are equally likely but for OTLP, which has most senders."""
        door = self._chance.choice((*self._doors, "otlp", "otlp"))
        return self._chance.choice(self._doors[door])

    def _texts(self, prefix: str) -> tuple[list[str], int]:
        self._number += 1
        count = self._chance.choice((1, 1, 3))
        return [f"{prefix}{self._number}_{each}" for each in range(count)], self._number * 10

    async def _good(self, sender: Sender) -> None:
        texts, number = self._texts(GOOD)
        # These doors take one message in a request.
        texts = texts[:1] if sender.name in ("topic raw", "danube") else texts
        tenant = self._chance.choice(TENANTS)
        body = sender.pack(sender.make(texts, number))
        answer = await self._answered(sender.name, lambda: sender.send(body, tenant))
        self.counts[f"good {answer.status}"] += 1
        if answer.status not in (200, 204):
            self.faults.append(f"good {sender.name}: {answer}")
            return
        self.stored[sender.topic, sender.column, tenant if _has_tenants(sender) else ""] += texts

    async def _bad(self, sender: Sender) -> None:
        (texts, number), (others, other) = self._texts("bad_"), self._texts("bad_")
        body, second = sender.make(texts, number), sender.make(others, other)
        match self._chance.randrange(10):
            case 0:
                body = damaged(self._chance, sender.pack(body), sender.pack(second))
            case 1:
                # The body is encoded as another request would be.
                body = self._chance.choice(self._senders).pack(sender.mutate(self._chance, body, second))
            case _:
                body = sender.pack(sender.mutate(self._chance, body, second))
        answer = await self._answered(sender.name, lambda: sender.send(body, BAD))
        self._check(sender.name, answer, body[:4000].hex())

    async def _call(self) -> None:
        call = self._chance.choice(self._calls[self._chance.choice(("asked", "danube", *self._calls))])
        own = random.Random(self._chance.getrandbits(64))
        state = own.getstate()

        async def make() -> Answer:
            own.setstate(state)
            return await call.make(own)

        self._check(call.name, await self._answered(call.name, make), "")

    async def _answered(self, name: str, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Returns the final answer: a request that is told to come again is repeated, and must get another answer
        then.
        """
        for _ in range(TRIES):
            try:
                answer = await send()
            except (httpx.TransportError, TimeoutError) as error:
                return Answer(NO_ANSWER, repr(error))
            if answer.status not in (429, 503):
                break
            await asyncio.sleep(PAUSE_SECONDS)
        return answer

    def _check(self, name: str, answer: Answer, sent: str) -> None:
        """Checks that a request that can never succeed is refused for good, and that no refusal reveals the inside of
        the server.
        """
        self.counts[f"{_door(name)} {answer.status}"] += 1
        reveals = answer.status >= 400 and any(word in answer.text for word in self._hidden)
        if not 200 <= answer.status < 500 or answer.status == 429 or reveals:
            self.faults.append(f"{name}: {answer} for {sent}")


def _by_door(sent: list[_Sent]) -> dict[str, list[_Sent]]:
    found: defaultdict[str, list[_Sent]] = defaultdict(list)
    for each in sent:
        found[_door(each.name)].append(each)
    return dict(found)


def _door(name: str) -> str:
    return name.split()[0]


def _has_tenants(sender: Sender) -> bool:
    return not sender.topic.startswith(TOPIC)
