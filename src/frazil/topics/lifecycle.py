"""Creates and deletes topics.

A deletion is final when its record is written. The cleanup that follows can be repeated by anybody at any time, and
happens before a topic of the same name is created.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from frazil.disk.files import DirectoryLock
from frazil.errors import InvalidTopic, SchemaMismatch, TopicMismatch, TopicNotFound
from frazil.failpoints import failpoint
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import dotted
from frazil.lake.tables.put_aside import put_table_aside
from frazil.lake.tables.table_check import check_table
from frazil.lake.tables.table_history import add_retirement
from frazil.lake.tables.tables import base_identifier
from frazil.log import layout
from frazil.log.segments.trim import clear
from frazil.log.topics import generations
from frazil.log.topics.generations import Creation, Deletion, Dispatch
from frazil.log.topics.naming import hint
from frazil.log.topics.own_table import check_own_table
from frazil.log.wal.recovery import wal_files
from frazil.topics.messages import MESSAGE
from frazil.topics.read.topic_handle import TopicHandle

logger = logging.getLogger(__name__)


def create(handle: TopicHandle, partitions: int, dispatch: Dispatch = "reliable") -> Creation:
    """Creates the topic unless it exists, and returns it. An existing topic keeps its partitions."""
    store, log = handle.log.store, handle.log
    if found := generations.creation(store, handle.topic):
        return found
    if handle.topic in log.config.kafka.topics or log.config.is_telemetry(handle.topic):
        # The first record of the other door may be still to come, and would not fit any more.
        raise TopicMismatch(f"Topic {handle.topic!r} is not one of messages: another door of this server fills it.")
    _check_number(handle, partitions)
    if deleted := generations.deletion(store, handle.topic):
        check_own_table(log.config, store, handle.topic)
        tidy_up(handle, deleted)
        _make_way(handle)
    try:
        log.admit(handle.topic, MESSAGE)
    except SchemaMismatch as error:
        raise TopicMismatch(f"Topic {handle.topic!r} exists, and is not one of messages: {error}") from error
    failpoint("topics.admitted")
    return generations.create(store, handle.topic, partitions, log.world.clock.now_ms(), dispatch)


def ensure(handle: TopicHandle, partitions: int, dispatch: Dispatch) -> Creation:
    """Creates the topic unless it exists, and gives it at least this many partitions."""
    made = create(handle, partitions, dispatch)
    if made.dispatch != dispatch:
        raise TopicMismatch(f"Topic {handle.topic!r} is {made.dispatch}, not {dispatch}. Produce to another topic.")
    if made.partitions >= partitions:
        return made
    _check_number(handle, partitions)
    return generations.grow(handle.log.store, handle.topic, made, partitions, handle.log.world.clock.now_ms())


def _check_number(handle: TopicHandle, partitions: int) -> None:
    most = handle.log.config.messages.max_partitions
    if not 0 < partitions <= most:
        raise InvalidTopic(
            f"Topic {handle.topic!r} cannot have {partitions:,} partitions: it takes 1 to {most:,}, the setting "
            f"messages.max_partitions."
        )


def existing(handle: TopicHandle) -> Creation:
    """Raises `TopicNotFound` if the topic was not created, or was deleted, and `TopicMismatch` if it has no
    messages."""
    found = generations.creation(handle.log.store, handle.topic)
    if found is None:
        known = handle.log.topics()
        if handle.topic in known:
            raise TopicMismatch(f"Topic {handle.topic!r} is not one of messages: read its rows with SQL.")
        messages = [each for each in known if generations.creation(handle.log.store, each) is not None]
        raise TopicNotFound(f"Topic {handle.topic!r} does not exist.{hint(handle.topic, messages)}")
    return found


def topic_deleted(topic: str) -> TopicNotFound:
    return TopicNotFound(f"Topic {topic!r} was deleted.")


def delete(handle: TopicHandle, topic: Creation, ends: Mapping[int, int], *, drop_table: bool) -> None:
    """Deletes a topic that nobody may write to any more. `ends` are the ends of its partitions."""
    made = Deletion(topic.generation, ends, drop_table)
    if generations.delete(handle.log.store, handle.topic, made, handle.log.world.clock.now_ms()):
        failpoint("topics.deleted")
        tidy_up(handle, made)


def finish_deletion(handle: TopicHandle) -> None:
    """Cleans up after a deletion that was not finished."""
    if made := generations.deletion(handle.log.store, handle.topic):
        tidy_up(handle, made)


def tidy_up(handle: TopicHandle, made: Deletion) -> None:
    """Removes what a deleted topic has left. It removes only what existed when the topic was deleted."""
    log = handle.log
    for partition, end in made.ends.items():
        clear(log.store, handle.topic, partition, end, log.world.clock.now_ms())
        directory = layout.wal_directory(log.config.data_dir, handle.topic, partition)
        if directory.is_dir():
            with DirectoryLock(directory):
                for path in (*wal_files(directory), directory / "watermark"):
                    path.unlink(missing_ok=True)
    if made.drop_table:
        _drop_table(handle)


def _drop_table(handle: TopicHandle) -> None:
    check = check_table(handle.lake, handle.log.store, handle.topic, base_identifier(handle.log.config, handle.topic))
    if check.table is not None and check.is_claimed:
        with calling(f"Dropping table {dotted(check.identifier)}"):
            handle.lake.catalog.drop_table(check.identifier)
    if check.history and (check.table is None or check.is_claimed):
        add_retirement(handle.log.store, handle.topic, check.history[-1])


def _make_way(handle: TopicHandle) -> None:
    """Renames the table of a deleted topic of this name if it was kept, because it does not belong to the new topic's
    log."""
    check = check_table(handle.lake, handle.log.store, handle.topic, base_identifier(handle.log.config, handle.topic))
    if check.table is not None and not check.is_claimed:
        return
    aside = put_table_aside(handle.lake, handle.log.store, check)
    if aside is not None:
        logger.warning(
            "the table of a deleted topic of the same name was put aside",
            extra={"topic": handle.topic, "table": dotted(check.identifier), "now": dotted(aside)},
        )
