from __future__ import annotations

import pytest

from frazil.errors import ConfigError
from frazil.pipeline.datasource.options import SourceOptions
from frazil.scan.micro_batches import BatchLimits
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound


def test_a_topic_is_enough() -> None:
    options = SourceOptions.parse({"topic": "orders"})
    assert (options.topic, options.config, options.read) == ("orders", None, "both")
    assert (options.starts, options.ends, options.tail) == (Bound(EARLIEST), Bound(LATEST), True)


def test_names_are_taken_in_any_case() -> None:
    given = {"TOPIC": "orders", "startingoffsets": "Latest", "maxoffsetspertrigger": "5"}
    options = SourceOptions.parse(given, stream=True)
    assert (options.starts, options.limits) == (Bound(LATEST), BatchLimits(5, None))


def test_offsets_are_given_by_partition() -> None:
    given = {"topic": "orders", "startingOffsets": '{"0": 123, "1": -2}', "endingOffsets": '{"0": 200, "1": -1}'}
    options = SourceOptions.parse(given)
    assert options.starts == Bound(EARLIEST, {0: 123, 1: -2})
    assert options.ends == Bound(LATEST, {0: 200, 1: -1})


def test_positions_of_a_streams_progress_are_offsets() -> None:
    given = {"topic": "orders", "startingOffsets": '{"0": {"offset": 7, "epoch": "a"}}'}
    assert SourceOptions.parse(given, stream=True).starts == Bound(EARLIEST, {0: 7})


def test_a_batch_may_end_at_what_is_sealed() -> None:
    options = SourceOptions.parse({"topic": "orders", "endingOffsets": "sealed"})
    assert (options.ends, options.tail) == (Bound(LATEST), False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topik": "x"}, "Unknown option 'topik' of the frazil data source; known: topic, config, read, starting"),
        ({"path": "x"}, "Unknown option 'path'"),
        ({"read": "some"}, "Option 'read': 'some' is not allowed; allowed: both, table, log"),
        ({"topic": ""}, "needs the option 'topic'"),
        ({"startingOffsets": "latest"}, "latest is for spark.readStream only"),
        ({"startingOffsets": '{"0": -1}'}, "latest is for spark.readStream only"),
        ({"startingOffsets": "sealed"}, "'sealed' is not allowed; allowed: earliest, latest, or offsets"),
        ({"startingOffsets": '{"0": 1.5}'}, "allowed: earliest, latest, or offsets"),
        ({"endingOffsets": "earliest"}, "earliest would leave nothing to read"),
        ({"endingOffsets": '{"a": 1}'}, "allowed: earliest, latest, sealed, or offsets by partition"),
        ({"endingOffsets": "[1]"}, "allowed: earliest, latest, sealed, or offsets by partition"),
        ({"maxOffsetsPerTrigger": "5"}, "'maxOffsetsPerTrigger' is for spark.readStream only"),
    ],
)
def test_what_is_wrong_is_told(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SourceOptions.parse({"topic": "orders"} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "'endingOffsets' is for spark.read only"),
        ({"maxOffsetsPerTrigger": "0"}, "'0' is not allowed; allowed: a whole number from 1 on"),
        ({"maxBytesPerTrigger": "1m"}, "'1m' is not allowed; allowed: a whole number from 1 on"),
    ],
)
def test_what_is_wrong_with_a_stream_is_told(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SourceOptions.parse({"topic": "orders"} | options, stream=True)
