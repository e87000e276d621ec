"""The options of a partition's writer: the settings of `log`, with those of its topic before them."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.config.sections.log import Ack, LogConfig, SourcesConfig, Sync
from frazil.config.sections.section import MIB
from frazil.config.sections.topics import TopicConfig
from frazil.log.segments.segment import DEFAULT_ENCODING, Encoding


@dataclass(frozen=True)
class WriterOptions:
    ack: Ack = "local"
    sync: Sync = "periodic"
    max_file_bytes: int = 64 * MIB
    max_append_bytes: int = 32 * MIB
    max_tail_bytes: int = 256 * MIB
    append_timeout: float = 10.0
    seal_seconds: float = 10.0
    seal_bytes: int = 64 * MIB
    seal_rows: int = 1_000_000
    compression_level: int = 1
    sources: SourcesConfig = field(default_factory=SourcesConfig)
    encoding: Encoding = DEFAULT_ENCODING
    """This is how segments are encoded. A door that knows what its columns look like sets it."""
    looked_up: bool = True
    """This says whether the hot buffer holds records after they are sealed. For a door whose records are hardly ever
    asked for by offset, that would be memory and a copy for nothing."""
    exclusive: bool = True
    """This says whether other processes of this machine are kept out while one writes. Only `ack: object` can do
    without: a new writer then takes the partition over, and the former one is fenced, even if it hangs."""

    @classmethod
    def of(cls, log: LogConfig, topic: TopicConfig) -> WriterOptions:
        seal = log.seal.model_copy(update=topic.seal.model_dump(exclude_none=True))
        linger = topic.linger_ms or log.linger_ms
        return cls(
            ack=topic.ack,
            sync=topic.sync or log.sync,
            max_file_bytes=log.max_file_size_mb * MIB,
            max_append_bytes=log.max_append_mb * MIB,
            max_tail_bytes=log.max_tail_mb * MIB,
            append_timeout=log.append_timeout_seconds,
            seal_seconds=linger / 1000 if topic.ack == "object" else seal.interval_seconds,
            seal_bytes=seal.max_mb * MIB,
            seal_rows=seal.max_rows,
            compression_level=log.compression_level,
            sources=log.sources,
        )
