"""Tells Danube's clients which server has a topic, and what its partitions are called."""

from __future__ import annotations

from typing import Any

from frazil.doors.danube import wire
from frazil.errors import TopicNotFound
from frazil.topics.storage import TopicStorage


class Discovery:
    """Answers that all topics are at this process, which clients reach at `url`."""

    def __init__(self, storage: TopicStorage, url: str) -> None:
        self._storage = storage
        self._url = url

    async def lookup(self, request: Any) -> Any:
        self._storage.name(request.topic)
        return wire.TopicLookupResponse(
            request_id=request.request_id,
            response_type=wire.CONNECT,
            connect_url=self._url,
            broker_url=self._url,
        )

    async def partitions(self, request: Any) -> Any:
        """Answers with no partitions for a topic that does not exist, as clients expect."""
        name = self._storage.name(request.topic)
        try:
            count = await self._storage.partitions(request.topic)
        except TopicNotFound:
            count = 0
        if name.partition is not None:
            names = [request.topic] if name.partition < count else []
        elif count == 1:
            names = [request.topic]
        else:
            names = [name.part(number) for number in range(count)]
        return wire.TopicPartitionsResponse(request_id=request.request_id, partitions=names)
