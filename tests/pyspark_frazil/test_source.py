from __future__ import annotations

import ast
import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from frazil.log.topics.schemas import TopicSchemas
from tests.lake.checksums.damage import bit_of_column, data_paths, flip
from tests.lake.commit.commits import compact, expire
from tests.lake.support import TOPIC, nessie_config
from tests.log.support import SCHEMA
from tests.pyspark_frazil.streams import started
from tests.scan.support import Topic, span
from tests.servers.seaweedfs import SECRET_ACCESS_KEY
from tests.servers.shared import NessieServer, S3Server
from tests.servers.spark import SparkKeeper

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Topic]:
    with Topic(tmp_path) as log:
        yield log


def load(spark: SparkSession, log: Topic, **options: Any) -> DataFrame:
    reader = spark.read.format("frazil").option("topic", TOPIC).option("config", str(log.settings()))
    return reader.options(**options).load()


def found(frame: DataFrame) -> list[tuple[int, int]]:
    """Returns partition and offset of all rows. The id of each row must be its offset."""
    rows = frame.select("_log_partition", "_offset", "id").collect()
    assert all(row[1] == row[2] for row in rows)
    return sorted((row[0], row[1]) for row in rows)


def test_a_topic_is_read_from_table_log_or_both(spark: SparkSession, log: Topic) -> None:
    log.create(0, 1)
    log.seal(10)
    log.seal(10)
    log.seal(5, partition=1)
    log.move(10)
    log.append(3)
    both = load(spark, log)
    assert both.schema.simpleString() == "struct<id:bigint,text:string,_log_partition:int,_offset:bigint>"
    assert found(both) == span(0, 0, 23) + span(1, 0, 5)
    assert both.where("_offset = 21").first().text == "row 21"  # type: ignore[union-attr]
    assert found(load(spark, log, read="table")) == span(0, 0, 10)
    assert found(load(spark, log, read="log")) == span(0, 0, 23) + span(1, 0, 5)


def test_a_read_may_start_and_end_at_offsets(spark: SparkSession, log: Topic) -> None:
    log.create(0, 1)
    log.seal(20)
    log.seal(5, partition=1)
    log.move(10)
    log.append(3)
    assert found(load(spark, log, endingOffsets="sealed")) == span(0, 0, 20) + span(1, 0, 5)
    bounds = {"startingOffsets": '{"0": 8, "1": -2}', "endingOffsets": '{"0": 12, "1": -1}'}
    assert found(load(spark, log, **bounds)) == span(0, 8, 12) + span(1, 0, 5)


def test_sessions_find_the_source_by_themselves_and_sql_can_use_it(spark: SparkSession, log: Topic) -> None:
    log.seal(4)
    session = spark.newSession()
    load(session, log).createOrReplaceTempView("orders")
    assert session.sql("SELECT count(*), sum(id) FROM orders").first() == (4, 6)


def test_an_empty_topic_has_no_rows(spark: SparkSession, log: Topic) -> None:
    log.create(0)
    log.append(0)
    assert found(load(spark, log)) == []


def test_a_commit_between_planning_and_reading_changes_nothing(spark: SparkSession, log: Topic) -> None:
    log.create(0)
    for _ in range(3):
        log.seal(10)
    log.move(10)
    log.append(5)
    frame = load(spark, log)
    frame._jdf.queryExecution().executedPlan().execute()
    log.seal(1)
    log.move(20)
    log.move(36)
    compact(log.lake, log.name, count=2)
    log.trim(36)
    assert frame.rdd.count() == 35
    assert found(load(spark, log)) == span(0, 0, 36)


KINDS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("small", pa.int8()),
        ("large", pa.uint64()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float32()),
        ("sure", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("ns", "UTC")),
        ("local", pa.timestamp("ms")),
        ("time", pa.time64("us")),
        ("raw", pa.binary()),
        ("code", pa.binary(4)),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("city", pa.string()), ("codes", pa.list_(pa.binary(2)))])),
    ]
)
VALUES: dict[str, Any] = {
    "id": 0,
    "small": -5,
    "large": 2**64 - 1,
    "price": Decimal("12.50"),
    "ratio": 0.5,
    "sure": True,
    "day": datetime.date(2026, 11, 15),
    "moment": 1_700_000_000_123_456_789,
    "local": datetime.datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001 - a time without a zone
    "time": datetime.time(1, 0),
    "raw": b"\x00\xff",
    "code": b"abcd",
    "tags": ["a", None],
    "counts": [("x", 1)],
    "place": {"city": "Bern", "codes": [b"ab"]},
}


def test_all_kinds_of_values_are_the_same_from_table_and_log(spark: SparkSession, tmp_path: Path) -> None:
    with Topic(tmp_path, KINDS) as log:
        TopicSchemas(log.store, TOPIC).admit(KINDS)
        log.create(0)
        empty = dict.fromkeys(KINDS.names) | {"id": 1}
        for _ in range(2):
            log.writer().append(pa.RecordBatch.from_pylist([VALUES, empty], KINDS))
            log.seal()
        log.move(2)
        rows = load(spark, log).orderBy("_offset").collect()
    values = [tuple(row)[:-2] for row in rows]
    assert values[:2] == values[2:]
    row = rows[2].asDict(recursive=True)
    assert row["large"] == Decimal(2**64 - 1)
    assert row["moment"].microsecond == 123_456
    assert row["moment_ns"] == 789
    assert row["local"] == VALUES["local"]
    assert row["time"] == 3_600_000_000
    assert row["code"] == bytearray(b"abcd")
    assert (row["tags"], row["counts"]) == (["a", None], {"x": 1})
    assert row["place"] == {"city": "Bern", "codes": [bytearray(b"ab")]}
    assert {name for name, value in rows[1].asDict().items() if value is not None} == {
        "id",
        "_log_partition",
        "_offset",
    }


def test_columns_can_be_chosen_by_a_schema(spark: SparkSession, log: Topic) -> None:
    log.create(0)
    log.seal(2)
    log.move(1)
    reader = spark.read.format("frazil").option("topic", TOPIC).option("config", str(log.settings()))
    assert sorted(reader.schema("_offset BIGINT, text STRING").load().collect()) == [(0, "row 0"), (1, "row 1")]
    with pytest.raises(Exception, match="Column 'id' is bigint, not string"):
        reader.schema("id STRING").load().collect()
    with pytest.raises(Exception, match="The topic has no column 'prise'; its columns: id, text"):
        reader.schema("prise STRING").load().collect()


def test_an_error_is_a_sentence_in_what_spark_says(spark: SparkSession, log: Topic) -> None:
    log.seal(1)
    with pytest.raises(
        Exception, match="ConfigError: Unknown option 'topik' of the frazil data source; known: topic"
    ):
        load(spark, log, topik="x")
    with pytest.raises(Exception, match="TopicNotFound: Topic 'nothing' does not exist"):
        load(spark, log, topic="nothing")
    with pytest.raises(Exception, match="CallError: Topic 'orders' has no partition 9; its partitions: 0"):
        load(spark, log, startingOffsets='{"9": 1}').collect()


def follow(spark: SparkSession, log: Topic, **options: Any) -> DataFrame:
    reader = spark.readStream.format("frazil").option("topic", TOPIC).option("config", str(log.settings()))
    return reader.options(**options).load()


class Sink:
    """Writes a stream to a folder of Parquet files. Each start continues from the checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._rows, self._checkpoint = str(folder / "sink"), str(folder / "checkpoint")

    def start(self, stream: DataFrame) -> StreamingQuery:
        writer = stream.writeStream.option("checkpointLocation", self._checkpoint)
        return started(lambda: writer.start(self._rows, "parquet", "append"))

    def found(self) -> list[tuple[int, int]]:
        return found(self._spark.read.parquet(self._rows))


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, log: Topic, tmp_path: Path) -> None:
    """Meanwhile rows are moved, compacted, expired and trimmed, and a partition is added."""
    log.create(0)
    for _ in range(4):
        log.seal(10)
    sink = Sink(spark, tmp_path)
    query = sink.start(follow(spark, log, maxOffsetsPerTrigger=8))
    try:
        query.processAllAvailable()
        sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        log.seal(5)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sizes == [8] * 5
    assert sink.found() == span(0, 0, 45)
    log.seal(10)
    log.seal(10)
    log.seal(3, partition=1)
    log.move(30)
    log.move(60)
    compact(log.lake, log.name)
    expire(log.lake, log.name)
    log.trim(60, delete=True)
    query = sink.start(follow(spark, log, maxOffsetsPerTrigger=8))
    try:
        query.processAllAvailable()
        sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        offsets = ast.literal_eval(query.recentProgress[-1].sources[0].endOffset)
    finally:
        query.stop()
    assert sink.found() == span(0, 0, 65) + span(1, 0, 3)
    assert sizes == [8, 8, 7]
    assert {partition: each["offset"] for partition, each in offsets.items()} == {"0": 65, "1": 3}


def test_a_stream_may_start_anywhere_and_end_by_itself(spark: SparkSession, log: Topic, tmp_path: Path) -> None:
    log.seal(10)
    log.append(2)
    batches: list[list[tuple[int, int]]] = []

    def take(frame: DataFrame, _: int) -> None:
        batches.append(found(frame))

    for name, start in (("offset", '{"0": 7}'), ("latest", "latest"), ("earliest", "earliest")):
        writer = follow(spark, log, startingOffsets=start).writeStream.foreachBatch(take)
        writer = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / name))
        assert started(writer.start).awaitTermination(60)
    assert [batch for batch in batches if batch] == [span(0, 7, 10), span(0, 0, 10)]


def test_new_columns_do_not_disturb_a_stream(spark: SparkSession, log: Topic, tmp_path: Path) -> None:
    log.create(0)
    log.seal(2)
    sink = Sink(spark, tmp_path)
    query = sink.start(follow(spark, log))
    try:
        query.processAllAvailable()
        wider = SCHEMA.append(pa.field("price", pa.float64()))
        TopicSchemas(log.store, TOPIC).admit(wider)
        more = [pa.array([2], pa.int64()), pa.array(["a"]), pa.array([1.5])]
        log.writer().append(pa.record_batch(more, schema=wider))
        log.seal()
        query.processAllAvailable()
    finally:
        query.stop()
    assert sink.found() == span(0, 0, 3)
    assert "price" in follow(spark, log).columns


def test_a_stream_whose_log_lost_records_fails_and_says_so(spark: SparkSession, log: Topic, tmp_path: Path) -> None:
    log.seal(5)
    log.seal(5)
    sink = Sink(spark, tmp_path)
    query = sink.start(follow(spark, log))
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    newest = sorted(log.config.data_dir.glob("store/queue/orders/00000/*.parquet"))[-1]
    newest.unlink()
    query = sink.start(follow(spark, log))
    with pytest.raises(Exception, match="the stream is at offset 10, but the log ends at 5"):
        query.processAllAvailable()
    query.stop()


def test_rows_deleted_from_the_table_are_left_out(spark_keeper: SparkKeeper, log: Topic) -> None:
    log.create(0)
    log.seal(10)
    log.move(6)
    session = spark_keeper.for_lake(log.config)
    session.sql("ALTER TABLE frazil.frazil.orders SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    session.sql("DELETE FROM frazil.frazil.orders WHERE id = 3")
    assert [task.delete_files for task in log.lake.load(log.name).scan().plan_files()] != [set()]
    assert found(load(session, log)) == span(0, 0, 3) + span(0, 4, 10)


def test_a_rest_catalog_and_s3_are_reached_from_tasks_without_showing_how(
    spark: SparkSession,
    tmp_path: Path,
    nessie: NessieServer,
    s3_server: S3Server,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Topic(tmp_path, config=nessie_config(tmp_path, nessie, s3_server, namespace)) as log:
        log.create(0)
        log.seal(10)
        log.move(6)
        log.append(2)
        frame = load(spark, log)
        assert found(frame) == span(0, 0, 12)
        frame.explain(extended=True)
        assert SECRET_ACCESS_KEY not in capsys.readouterr().out


def test_a_damaged_file_of_the_table_is_named(spark: SparkSession, log: Topic) -> None:
    log.create(0)
    log.seal(100)
    log.move(100)
    (path,) = data_paths(log.lake.load(log.name))
    flip(path, bit_of_column(path, "id"))
    with pytest.raises(Exception, match=rf"TableDamaged.*{path.parent.name}/{path.name} of table .* is damaged"):
        load(spark, log).collect()
