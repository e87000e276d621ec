"""Makes dead letters: the original messages, with attributes that say what happened to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from frazil.topics.messages import Message, from_batch
from frazil.topics.subscriptions.delivery import FailedMessages
from frazil.topics.subscriptions.subscription_name import SubscriptionName


def dead_letters(
    dead_letter: FailedMessages, full_name: SubscriptionName, generation: str
) -> Iterator[tuple[str, Message]]:
    """Yields the messages for the dead-letter topic. Each has an id, by which a repeated store is recognized."""
    failure = {
        "x-original-topic": f"/{full_name.namespace}/{full_name.topic}",
        "x-original-subscription": full_name.subscription,
        "x-original-partition": str(dead_letter.partition),
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(dead_letter.deliveries),
        "x-failure-reason": dead_letter.reason,
    }
    producers = dead_letter.batch.column("producer_id").to_pylist()
    for offset, message, producer in zip(
        range(dead_letter.first, dead_letter.end), from_batch(dead_letter.batch), producers, strict=True
    ):
        own = {"x-original-topic-offset": str(offset)}
        if producer is not None:
            own["x-original-producer-id"] = producer
        name = "/".join(("dead-letter", *full_name, generation, str(dead_letter.partition), str(offset)))
        yield name, replace(message, attributes={**message.attributes, **failure, **own})
