"""Topics come to be and go.

A deletion is decided when its record is there; what follows is tidying up, which can be done again by anybody at any
time, and is before a topic of the same name begins.
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
from frazil.topics.read.topic_place import TopicPlace

logger = logging.getLogger(__name__)


def create(place: TopicPlace, partitions: int, dispatch: Dispatch = "reliable") -> Creation:
    """The topic as it is then: one that exists keeps its partitions."""
    store, log = place.log.store, place.log
    if found := generations.creation(store, place.topic):
        return found
    if place.topic in log.config.kafka.topics or log.config.is_telemetry(place.topic):
        # Its first record may be still to come, and would not fit any more.
        raise TopicMismatch(f"Topic {place.topic!r} is not one of messages: another door of this server fills it.")
    _check_number(place, partitions)
    if deleted := generations.deletion(store, place.topic):
        check_own_table(log.config, store, place.topic)
        tidy_up(place, deleted)
        _make_way(place)
    try:
        log.admit(place.topic, MESSAGE)
    except SchemaMismatch as error:
        raise TopicMismatch(f"Topic {place.topic!r} exists, and is not one of messages: {error}") from error
    failpoint("topics.admitted")
    return generations.create(store, place.topic, partitions, log.world.clock.now_ms(), dispatch)


def ensure(place: TopicPlace, partitions: int, dispatch: Dispatch) -> Creation:
    """The topic with at least so many partitions, created if there is none."""
    made = create(place, partitions, dispatch)
    if made.dispatch != dispatch:
        raise TopicMismatch(f"Topic {place.topic!r} is {made.dispatch}, not {dispatch}. Produce to another topic.")
    if made.partitions >= partitions:
        return made
    _check_number(place, partitions)
    return generations.grow(place.log.store, place.topic, made, partitions, place.log.world.clock.now_ms())


def _check_number(place: TopicPlace, partitions: int) -> None:
    most = place.log.config.messages.max_partitions
    if not 0 < partitions <= most:
        raise InvalidTopic(
            f"Topic {place.topic!r} cannot have {partitions:,} partitions: it takes 1 to {most:,}, the setting "
            f"messages.max_partitions."
        )


def existing(place: TopicPlace) -> Creation:
    """`TopicNotFound` if it was not created, or was deleted; `TopicMismatch` if it is not one of messages."""
    found = generations.creation(place.log.store, place.topic)
    if found is None:
        known = place.log.topics()
        if place.topic in known:
            raise TopicMismatch(f"Topic {place.topic!r} is not one of messages: read its rows with SQL.")
        messages = [each for each in known if generations.creation(place.log.store, each) is not None]
        raise TopicNotFound(f"Topic {place.topic!r} does not exist.{hint(place.topic, messages)}")
    return found


def gone(topic: str) -> TopicNotFound:
    return TopicNotFound(f"Topic {topic!r} was deleted.")


def delete(place: TopicPlace, topic: Creation, ends: Mapping[int, int], *, drop_table: bool) -> None:
    """Nobody may write to it any more. `ends` are where its partitions end."""
    made = Deletion(topic.generation, ends, drop_table)
    if generations.delete(place.log.store, place.topic, made, place.log.world.clock.now_ms()):
        failpoint("topics.deleted")
        tidy_up(place, made)


def finish_deletion(place: TopicPlace) -> None:
    """Tidy up after one that was not finished."""
    if made := generations.deletion(place.log.store, place.topic):
        tidy_up(place, made)


def tidy_up(place: TopicPlace, made: Deletion) -> None:
    """Remove what a deleted topic has left; only what was there when it was deleted."""
    log = place.log
    for partition, end in made.ends.items():
        clear(log.store, place.topic, partition, end, log.world.clock.now_ms())
        directory = layout.wal_directory(log.config.data_dir, place.topic, partition)
        if directory.is_dir():
            with DirectoryLock(directory):
                for path in (*wal_files(directory), directory / "watermark"):
                    path.unlink(missing_ok=True)
    if made.drop_table:
        _drop_table(place)


def _drop_table(place: TopicPlace) -> None:
    check = check_table(place.lake, place.log.store, place.topic, base_identifier(place.log.config, place.topic))
    if check.table is not None and check.is_claimed:
        with calling(f"Dropping table {dotted(check.identifier)}"):
            place.lake.catalog.drop_table(check.identifier)
    if check.history and (check.table is None or check.is_claimed):
        add_retirement(place.log.store, place.topic, check.history[-1])


def _make_way(place: TopicPlace) -> None:
    """A table that was kept when its topic was deleted is put aside: it knows nothing of the new topic's log."""
    check = check_table(place.lake, place.log.store, place.topic, base_identifier(place.log.config, place.topic))
    if check.table is not None and not check.is_claimed:
        return
    aside = put_table_aside(place.lake, place.log.store, check)
    if aside is not None:
        logger.warning(
            "the table of a deleted topic of the same name was put aside",
            extra={"topic": place.topic, "table": dotted(check.identifier), "now": dotted(aside)},
        )
