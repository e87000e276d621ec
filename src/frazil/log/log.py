"""The log of one process: opens writers and readers, seals and syncs in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from frazil.clock import World
from frazil.config.model import Config
from frazil.disk.files import DirectoryLock, io_error, read_watermark
from frazil.errors import FrazilError, LogCorrupted, PartitionLocked, PartitionTaken, TopicNotFound, WalDamaged
from frazil.log import layout
from frazil.log.claims import claim, node_name, owner
from frazil.log.reader import PartitionReader, TailSource
from frazil.log.segments.index import SegmentIndex
from frazil.log.signal import Signal
from frazil.log.stopped_partitions import StoppedPartitions
from frazil.log.tail import SealedTail, Tail
from frazil.log.topics.generations import hidden
from frazil.log.topics.own_table import check_own_table
from frazil.log.topics.schemas import TopicSchemas, list_partitions, list_topics
from frazil.log.wal.recovery import is_wal, recover, wal_files
from frazil.log.wal_follower import WalTail
from frazil.log.writer.opening import check_nothing_lost, open_writer
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.sealer import OnFailure, Sealer
from frazil.log.writer.syncer import Syncer
from frazil.log.writer.writer import PartitionWriter
from frazil.store import ObjectStore, open_store
from frazil.store.local import LocalStore
from frazil.store.probe import check_create_only

logger = logging.getLogger(__name__)

COMMIT_THREADS = 8


def check_settings(config: Config) -> None:
    """Check the settings of log and store, as far as that is possible without a request to the store."""
    for topic in config.topics:
        layout.check_topic(topic)
    open_store(config.store, config.data_dir)


class Log:
    """Thread-safe. Close it, or use it as a context manager."""

    def __init__(
        self,
        config: Config,
        *,
        store: ObjectStore | None = None,
        world: World | None = None,
        on_failure: OnFailure = lambda _: None,
    ) -> None:
        for topic in config.topics:
            layout.check_topic(topic)
        self.config = config
        self.world = world or World()
        self.store = store or open_store(config.store, config.data_dir)
        self._schemas: dict[str, TopicSchemas] = {}
        self._writers: dict[tuple[str, int], PartitionWriter] = {}
        self._store_checked = False
        self.changed = Signal()
        """It fires when a writer was opened or released."""
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._making = threading.Lock()
        self._executor = ThreadPoolExecutor(COMMIT_THREADS, thread_name_prefix="frazil-commit")
        """It commits groups of appends, syncs WALs and deletes sealed files."""
        self._stopped = StoppedPartitions(config)
        self._sealer = Sealer(self.world, on_failure)
        self._syncer = Syncer(config.log.sync_interval_ms / 1000)

    # --- writing -------------------------------------------------------------------------------------------

    def writer(
        self,
        topic: str,
        schema: pa.Schema | None = None,
        *,
        partition: int | None = None,
        options: WriterOptions | None = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> PartitionWriter:
        """Return the writer of a partition: of the given one, or of one that is free for this process.

        A topic that does not exist yet is created with `schema`. `options` replace those of the settings. `confirm`
        is called before a segment is put, and raises when its records must not be stored.
        """
        layout.check_topic(topic)
        # Many partitions that are taken without a lock can be opened at once; their owner opens each only once.
        alone = self._opening if options is None or options.exclusive else nullcontext()
        with alone:
            if found := self._open_already(topic, partition):
                return found
            if topic in hidden(self.store):
                raise TopicNotFound(
                    f"Topic {topic!r} was deleted. Create it again before something is written to it, with `frazil "
                    f"topics create {topic}`."
                )
            schemas = self.schemas(topic)
            if schema is not None:
                self.admit(topic, schema)
            elif schemas.latest() is None:
                raise TopicNotFound(f"Topic {topic!r} does not exist, and no schema was given to create it with.")
            return (
                self._open(topic, partition, options, confirm)
                if partition is not None
                else self._open_free(topic, options)
            )

    def _open_already(self, topic: str, partition: int | None) -> PartitionWriter | None:
        with self._lock:
            for (name, number), writer in self._writers.items():
                if name == topic and partition in (None, number):
                    return writer
        return None

    def _open_free(self, topic: str, options: WriterOptions | None) -> PartitionWriter:
        """Open a partition of this node that no other process holds, or a new one."""
        node = self._node()
        for partition in self._local_partitions(topic):
            if (writer := self._try_open(topic, partition, options)) is not None:
                return writer
        known = list_partitions(self.store, topic)
        for partition in known:
            if owner(self.store, topic, partition) == node and (writer := self._try_open(topic, partition, options)):
                return writer
        partition = known[-1] + 1 if known else 0
        while True:
            claimed = claim(self.store, topic, partition, node, self.world)
            if claimed and (writer := self._try_open(topic, partition, options)):
                return writer
            partition += 1

    def _try_open(self, topic: str, partition: int, options: WriterOptions | None) -> PartitionWriter | None:
        try:
            return self._open(topic, partition, options)
        except (PartitionLocked, PartitionTaken) as error:
            logger.info("partition not free", extra={"topic": topic, "partition": partition, "reason": str(error)})
            return None

    def options(self, topic: str) -> WriterOptions:
        """Return the options of a topic's writers from the settings."""
        return WriterOptions.of(self.config.log, self.config.topic(topic))

    def _check_store(self) -> None:
        """Check the store once, before the first writer is opened. A local folder needs no check."""
        if not self._store_checked and not isinstance(self.store, LocalStore):
            check_create_only(self.store, self.world.new_id())
        self._store_checked = True

    def _open(
        self,
        topic: str,
        partition: int,
        options: WriterOptions | None = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> PartitionWriter:
        self._check_store()
        self._stopped.check((topic, partition))
        try:
            writer = self._opened(topic, partition, options or self.options(topic), confirm)
        except LogCorrupted as error:
            raise self._stopped.stop((topic, partition), error) from error
        self._stopped.go_on((topic, partition))
        return writer

    def _opened(
        self, topic: str, partition: int, options: WriterOptions, confirm: Callable[[], None]
    ) -> PartitionWriter:
        directory = layout.wal_directory(self.config.data_dir, topic, partition)
        if options.ack == "object" and wal_files(directory):
            self._retire_wal(topic, partition, directory)
        if options.ack == "local" and not claim(self.store, topic, partition, self._node(), self.world):
            raise PartitionTaken(
                f"{topic}/{partition} belongs to node {owner(self.store, topic, partition)}, not to this one "
                f"({self._node()})."
            )
        writer = open_writer(
            topic,
            partition,
            directory=directory,
            store=self.store,
            schemas=self.schemas(topic),
            options=options,
            world=self.world,
            executor=self._executor,
            on_change=self._sealer.wake,
            confirm=confirm,
        )
        with self._lock:
            self._writers[topic, partition] = writer
        self._sealer.add(writer)
        if options.ack == "local" and options.sync == "periodic":
            self._syncer.add(writer)
        self.changed.notify()
        return writer

    def _retire_wal(self, topic: str, partition: int, directory: Path) -> None:
        """Seal the records of a WAL that the topic had with `ack: local`, and delete it."""
        if not self._adopt(topic, partition):
            raise PartitionLocked(f"{directory} is in use by another process.")
        with DirectoryLock(directory):
            recovered = recover(directory, self.world.boot_id(), read_watermark(directory))
            if recovered and recovered.entries:
                raise PartitionLocked(f"{directory} was written by another process meanwhile. Try again.")
            for path in wal_files(directory):
                path.unlink()

    def _node(self) -> str:
        return node_name(self.config.data_dir, self.config.node, self.world)

    def _local_partitions(self, topic: str) -> list[int]:
        folder = layout.wal_root(self.config.data_dir) / topic
        if not folder.is_dir():
            return []
        return sorted(p for p in (layout.parse_partition(child.name) for child in folder.iterdir()) if p is not None)

    def release(self, writer: PartitionWriter) -> None:
        """Close one writer. Records that it has not sealed stay in its WAL."""
        self._sealer.remove(writer)
        self._syncer.remove(writer)
        with self._lock:
            if self._writers.get((writer.topic, writer.partition)) is writer:
                del self._writers[writer.topic, writer.partition]
        try:
            writer.close()
        finally:
            self.changed.notify()

    @property
    def writers(self) -> list[PartitionWriter]:
        with self._lock:
            return list(self._writers.values())

    def adopt_orphans(self) -> int:
        """Seal the records that ended processes left in WALs of this node; return how many partitions were sealed.

        A partition that is damaged, or whose files cannot be read, is stopped, and the others are sealed all the
        same. A temporary error, such as a store that is down, is raised at the end.
        """
        found = 0
        problem: FrazilError | None = None
        root = layout.wal_root(self.config.data_dir)
        for folder in sorted(root.glob("*/*")) if root.is_dir() else []:
            partition = layout.parse_partition(folder.name)
            topic = folder.parent.name
            if partition is None or self._open_already(topic, partition) or not is_wal(folder):
                continue
            try:
                self._stopped.check((topic, partition))
                if self._left_behind(topic, partition, folder) or (topic, partition) in self.stopped():
                    with self._opening:
                        found += self._adopt(topic, partition)
                self._stopped.go_on((topic, partition))
            except FrazilError as error:
                if error.retryable:
                    problem = problem or error
                else:
                    self._stopped.stop((topic, partition), error)
        if problem:
            raise problem
        return found

    def _left_behind(self, topic: str, partition: int, folder: Path) -> bool:
        """Tell whether nobody writes this WAL and it holds records. Raises when it is damaged."""
        try:
            with DirectoryLock(folder):
                acknowledged = read_watermark(folder)
                recovered = recover(folder, self.world.boot_id(), acknowledged)
        except PartitionLocked:
            return False
        except LogCorrupted as error:
            raise WalDamaged(str(error)) from error
        except OSError as error:
            raise io_error(error, "Reading the WAL in", folder) from error
        if recovered is None:
            check_nothing_lost(SegmentIndex(self.store, topic, partition), acknowledged, folder)
        return recovered is not None and bool(recovered.entries)

    def _adopt(self, topic: str, partition: int) -> bool:
        options = replace(self.options(topic), ack="local")
        try:
            writer = self._open(topic, partition, options)
        except PartitionLocked:
            return False
        try:
            writer.seal_all()
        finally:
            self.release(writer)
        return True

    # --- reading -------------------------------------------------------------------------------------------

    def schemas(self, topic: str) -> TopicSchemas:
        with self._lock:
            if topic not in self._schemas:
                self._schemas[topic] = TopicSchemas(self.store, topic, self.config.log.max_columns)
            return self._schemas[topic]

    def admit(self, topic: str, schema: pa.Schema) -> None:
        """Let the topic accept records of this schema. A new topic must have tables of its own."""
        schemas = self.schemas(topic)
        try:
            schemas.known()
        except TopicNotFound:
            with self._making:
                check_own_table(self.config, self.store, topic)
                schemas.admit(schema)
        else:
            schemas.admit(schema)

    def topics(self) -> list[str]:
        return list_topics(self.store)

    def partitions(self, topic: str) -> list[int]:
        return sorted({*list_partitions(self.store, topic), *self._local_partitions(topic)})

    def reader(self, topic: str, partition: int, *, provisional: bool = False) -> PartitionReader:
        """Return a reader. `provisional` adds unsealed records of `ack: object`, whose offsets may still change."""
        directory = layout.wal_directory(self.config.data_dir, topic, partition)
        elsewhere: WalTail | None = None

        def tail() -> TailSource | None:
            nonlocal elsewhere
            with self._lock:
                writer = self._writers.get((topic, partition))
            if writer is not None and isinstance(writer.stopped, PartitionTaken):
                return None
            if writer is not None:
                stable = writer.options.ack == "local" or provisional
                return writer.tail if stable else SealedTail(writer.tail)
            if is_wal(directory):
                elsewhere = elsewhere or WalTail(directory, self.world.boot_id)
                return elsewhere
            return None

        return PartitionReader(self.store, self.schemas(topic), topic, partition, tail)

    def tail(self, topic: str, partition: int) -> Tail | None:
        """Return the tail of a writer in this process; None if the offsets of its records may still change."""
        with self._lock:
            writer = self._writers.get((topic, partition))
        if writer is None or writer.options.ack != "local" or isinstance(writer.stopped, PartitionTaken):
            return None
        return writer.tail

    # --- state ---------------------------------------------------------------------------------------------

    def problems(self) -> dict[str, FrazilError]:
        """Return the partitions that are stopped or cannot be sealed, with the reason."""
        stopped = {f"{w.topic}/{w.partition}": w.stopped for w in self.writers if w.stopped}
        return {**self._sealer.problems(), **stopped}

    def stopped(self) -> dict[tuple[str, int], FrazilError]:
        """Return the partitions of this node that cannot be opened, with the reason. All others are served."""
        return self._stopped.all()

    def check_served(self, topic: str) -> None:
        """Raise the error that stopped a partition of the topic, if one is stopped."""
        for (name, _), error in self.stopped().items():
            if name == topic:
                raise error.again()

    def close(self, *, seal: bool = True) -> None:
        """Refuse appends, finish those under way, seal what can be sealed, and release all writers."""
        for writer in self.writers:
            writer.refuse()
        self._syncer.stop()
        self._sealer.stop()
        problem: FrazilError | None = None
        with self._opening:
            for writer in self.writers:
                if seal:
                    self._seal_last(writer)
                try:
                    self.release(writer)
                except FrazilError as error:
                    problem = problem or error
        self._executor.shutdown(wait=True)
        if problem:
            raise problem

    def _seal_last(self, writer: PartitionWriter) -> None:
        try:
            writer.drain()
            writer.seal_all()
        except FrazilError as error:
            kept = "its WAL keeps them" if writer.options.ack == "local" else "nobody was told they are stored"
            logger.warning(
                "records were not sealed before stopping; " + kept,
                extra={"topic": writer.topic, "partition": writer.partition, "reason": str(error)},
            )

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
