"""Settings of topics of messages."""

from __future__ import annotations

from pydantic import Field

from frazil.config.sections.section import Positive, Section


class MessagesConfig(Section):
    """Sets how topics of messages are made and read."""

    max_concurrent_reads: Positive = Field(
        10, description="Reads of files at a time; what is still in memory is read without."
    )
    prefetch_size: Positive = Field(
        5, description="Runs of messages, of at most 4 MiB each, that a stream reads ahead in each partition."
    )
    max_partitions: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Most partitions of a topic that is created, or that gets more since a Danube client names one. "
        "Topics that have more keep them.",
    )
    max_memory_mb: Positive = Field(
        128,
        description="Memory of all readers together, in MiB: half of it for messages that were just read from files "
        "and for the files, half for what is being sent and what subscriptions have read ahead or delivered. Some "
        "KiB for each reader, and a message that is larger than its part, come on top.",
    )
