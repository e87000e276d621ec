"""Settings of the subscriptions of a topic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from frazil.config.sections.section import Seconds, Section

Poison = Literal["dead_letter", "block", "drop"]
Count = Annotated[int, Field(ge=0)]


class SubscriptionsConfig(Section):
    """Sets when messages of a topic are delivered again, and what becomes of those that fail for good."""

    ack_timeout_seconds: Seconds = Field(
        30.0,
        description="Messages of a consumer that acknowledges nothing for so long are delivered again, and one that "
        "it passes over for so long while it acknowledges others.",
    )
    redelivery_delay_seconds: Seconds = Field(
        1.0, description="Before a message that failed is delivered again; doubles with every further failure."
    )
    max_redelivery_delay_seconds: Seconds = Field(60.0, description="The longest such delay.")
    max_redeliveries: Count = Field(5, description="How often a message that fails is delivered again.")
    after_redeliveries: Poison = Field(
        "dead_letter",
        description="What becomes of it then: it goes to the dead-letter topic (`dead_letter`), goes on to be "
        "delivered, so that what is behind it in its order waits (`block`), or counts as acknowledged (`drop`).",
    )
    dead_letter_topic: str | None = Field(
        None,
        description="Where dead letters go: a topic of messages, created when there is a first one. By default the "
        "topic's own name with `_dead_letters` behind it. Subscriptions of such a topic have `block`.",
    )
