"""Opens the writer of a partition: locks its folder, recovers its WAL, and finds where to go on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from frazil.clock import World
from frazil.disk.files import NoLock, io_error
from frazil.errors import LogCorrupted, WalDamaged
from frazil.framefile.folder import lock_folder
from frazil.log.segments.index import SegmentIndex
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.wal.directory import Wal
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.starting import Start, start_from_store, start_from_wal, start_new_wal
from frazil.log.writer.writer import PartitionWriter
from frazil.store import ObjectStore


def open_writer(
    topic: str,
    partition: int,
    *,
    directory: Path,
    store: ObjectStore,
    schemas: TopicSchemas,
    options: WriterOptions,
    world: World,
    executor: Executor,
    on_change: Callable[[PartitionWriter], None] = lambda _: None,
    confirm: Callable[[], None] = lambda: None,
) -> PartitionWriter:
    """Take the partition over from its former writer, here or elsewhere."""
    lock = lock_folder(directory) if options.exclusive or options.ack == "local" else NoLock()
    wal: Wal | None = None
    try:
        index = SegmentIndex(store, topic, partition)
        index.refresh()
        where = f"{topic}/{partition}"
        if options.ack == "local":
            wal = Wal(
                directory,
                boot=world.boot_id(),
                file_size=options.max_file_bytes,
                prefill=options.sync == "always",
            )
            start = _start(wal, index, world, options, where)
        else:
            start = start_from_store(index, world, options.sources)
        return PartitionWriter(
            topic,
            partition,
            store=store,
            schemas=schemas,
            options=options,
            world=world,
            executor=executor,
            start=start,
            wal=wal,
            lock=lock,
            on_change=on_change,
            confirm=confirm,
        )
    except BaseException as error:
        if wal is not None:
            wal.close(None)
        lock.release()
        if isinstance(error, OSError):
            raise io_error(error, "Opening", directory) from error
        raise


def check_nothing_lost(index: SegmentIndex, acknowledged: int, directory: Path) -> None:
    """Raise when there are no WAL files, and acknowledged records are not in segments either."""
    index.refresh()
    if acknowledged > index.sealed_end():
        raise WalDamaged(
            f"Records up to offset {acknowledged} were acknowledged, but {directory} has no WAL files and the store "
            f"has records up to {index.sealed_end()} only. `frazil log repair` goes on without them."
        )


def _start(wal: Wal, index: SegmentIndex, world: World, options: WriterOptions, where: str) -> Start:
    try:
        recovered = wal.recover()
    except LogCorrupted as error:
        raise WalDamaged(str(error)) from error
    if recovered is None:
        check_nothing_lost(index, wal.acknowledged, wal.directory)
        return start_new_wal(index, world, options.sources, where)
    return start_from_wal(recovered, index, world, options.sources, where)
