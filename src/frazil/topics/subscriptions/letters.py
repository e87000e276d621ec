"""Dead letters: messages as they were, with what happened to them in their attributes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from frazil.topics.messages import from_batch, to_batch
from frazil.topics.subscriptions.delivery import Letter
from frazil.topics.subscriptions.places import Place


def dead_letters(letter: Letter, place: Place, now_ms: int) -> pa.RecordBatch:
    """The rows to store in the dead-letter topic."""
    told = {
        "x-original-topic": f"/{place.namespace}/{place.topic}",
        "x-original-subscription": place.subscription,
        "x-original-partition": str(letter.partition),
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(letter.deliveries),
        "x-failure-reason": letter.reason,
    }
    messages = []
    producers = letter.batch.column("producer_id").to_pylist()
    for offset, message, producer in zip(
        range(letter.first, letter.end), from_batch(letter.batch), producers, strict=True
    ):
        own = {"x-original-topic-offset": str(offset)}
        if producer is not None:
            own["x-original-producer-id"] = producer
        messages.append(replace(message, attributes={**message.attributes, **told, **own}))
    return to_batch(messages, now_ms)
