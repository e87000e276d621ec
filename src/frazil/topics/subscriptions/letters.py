"""Dead letters: messages as they were, with what happened to them in their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from frazil.topics.messages import Message, from_batch
from frazil.topics.subscriptions.delivery import Letter
from frazil.topics.subscriptions.places import Place


def dead_letters(letter: Letter, place: Place, generation: str) -> Iterator[tuple[str, Message]]:
    """The messages to store in the dead-letter topic, each with an id by which it is known when it comes again."""
    told = {
        "x-original-topic": f"/{place.namespace}/{place.topic}",
        "x-original-subscription": place.subscription,
        "x-original-partition": str(letter.partition),
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(letter.deliveries),
        "x-failure-reason": letter.reason,
    }
    producers = letter.batch.column("producer_id").to_pylist()
    for offset, message, producer in zip(
        range(letter.first, letter.end), from_batch(letter.batch), producers, strict=True
    ):
        own = {"x-original-topic-offset": str(offset)}
        if producer is not None:
            own["x-original-producer-id"] = producer
        name = "/".join(("dead-letter", *place, generation, str(letter.partition), str(offset)))
        yield name, replace(message, attributes={**message.attributes, **told, **own})
