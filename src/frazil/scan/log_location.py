"""Describes where the records of a topic are, so that another thread, process or machine can read them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from frazil.config.model import Config
from frazil.config.sections.log import StoreConfig
from frazil.log.reader import PartitionReader
from frazil.log.topics.schemas import TopicSchemas
from frazil.store import ObjectStore, open_store


@dataclass(frozen=True)
class LogLocation:
    topic: str
    store: StoreConfig
    data_dir: Path

    @classmethod
    def of(cls, config: Config, topic: str) -> LogLocation:
        return cls(topic, config.store, config.data_dir.absolute())

    def open(self) -> ObjectStore:
        return _opened(pickle.dumps(self))[0]

    def reader(self, partition: int) -> PartitionReader:
        """Returns a reader of sealed records."""
        store, schemas = _opened(pickle.dumps(self))
        return PartitionReader(store, schemas, self.topic, partition)


@lru_cache(maxsize=64)
def _opened(location: bytes) -> tuple[ObjectStore, TopicSchemas]:
    """Opens the store and the schemas, and keeps them for later calls in this process."""
    where: LogLocation = pickle.loads(location)
    store = open_store(where.store, where.data_dir)
    return store, TopicSchemas(store, where.topic)
