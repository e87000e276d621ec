"""Keeps the sessions of consumers that receive over HTTP, by their names. A consumer that is silent for a while has
left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from frazil.errors import ConsumerGone
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.delivery_slices import take_within
from frazil.topics.subscriptions.subscription import Subscription
from frazil.topics.subscriptions.subscription_name import SubscriptionName

IDLE_SECONDS = 60.0
"""A consumer that does not ask for this long has left, and its messages go to others."""


@dataclass
class _Session:
    consumer: Consumer
    subscription: Subscription
    receiving: bool = False
    leaving: asyncio.TimerHandle | None = None


class Sessions:
    """Belongs to the event loop."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._sessions: dict[tuple[SubscriptionName, str], _Session] = {}

    async def receive(
        self, subscription: Subscription, name: str, most: int, wait: float, room: Callable[[], int]
    ) -> list[Delivered]:
        """Returns the next messages for a consumer as soon as there are some, or none after `wait` seconds.

        `room` then says how many bytes they may have. The others come with the next call.
        """
        key = (subscription.full_name, name)
        session = self._joined(key, subscription)
        session.receiving = True
        self._stay(session)
        try:
            runs, rest = take_within(await session.consumer.receive(most, wait), room())
            session.consumer.give_back(rest)
            return runs
        except ConsumerGone:
            # Another consumer has the name now. Whoever asks again begins a new session.
            if self._sessions.get(key) is session:
                del self._sessions[key]
            raise
        finally:
            session.receiving = False
            if self._sessions.get(key) is session:
                self._leave_later(key, session)

    def leave(self, subscription: Subscription, name: str) -> bool:
        """Ends a session, so that its messages go to others. Returns False if there is none of this name."""
        session = self._sessions.pop((subscription.full_name, name), None)
        if session is None:
            return False
        self._stay(session)
        session.consumer.close()
        return True

    def _joined(self, key: tuple[SubscriptionName, str], subscription: Subscription) -> _Session:
        """Returns the session of a consumer. One that asks again before it was answered begins a new session, which
        ends the old."""
        session = self._sessions.get(key)
        if session is None or session.receiving or session.subscription is not subscription:
            if session is not None:
                self._stay(session)
            session = self._sessions[key] = _Session(subscription.join(key[1]), subscription)
        return session

    def _stay(self, session: _Session) -> None:
        if session.leaving is not None:
            session.leaving.cancel()
            session.leaving = None

    def _leave_later(self, key: tuple[SubscriptionName, str], session: _Session) -> None:
        loop = asyncio.get_running_loop()
        session.leaving = loop.call_later(self._idle_seconds, self._leave, key, session)

    def _leave(self, key: tuple[SubscriptionName, str], session: _Session) -> None:
        if self._sessions.get(key) is session:
            del self._sessions[key]
            session.consumer.close()

    def close(self) -> None:
        """Forgets all sessions. The subscriptions tell the consumers."""
        for session in self._sessions.values():
            self._stay(session)
        self._sessions.clear()
