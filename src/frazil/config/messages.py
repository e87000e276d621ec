"""Settings of topics of messages."""

from __future__ import annotations

from pydantic import Field

from frazil.config.section import Positive, Section


class MessagesConfig(Section):
    """How topics of messages are read."""

    max_concurrent_reads: Positive = Field(
        10, description="Reads of files at a time; what is still in memory is read without."
    )
    prefetch_size: Positive = Field(
        5, description="Runs of messages, of at most 4 MiB each, that a stream reads ahead in each partition."
    )
    max_memory_mb: Positive = Field(
        128,
        description="Memory of all readers together, in MiB: half of it for messages that were just read from files "
        "and for the files, half for what streams are sending and subscriptions have read ahead or delivered. A few "
        "KiB for each reader, and a message that is larger than its part, come on top.",
    )
