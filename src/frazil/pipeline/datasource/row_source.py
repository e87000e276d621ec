"""The Spark data source of a topic's rows for derived tables. Its settings come from a file instead of options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from frazil.config.model import Config
from frazil.pipeline.datasource.options import SourceOptions
from frazil.pipeline.datasource.spark_types import spark_schema
from frazil.pipeline.datasource.stream import TopicStream
from frazil.pipeline.spark.settings_file import SettingsFile
from frazil.scan.micro_batches import BatchLimits
from frazil.scan.offset_ranges import LATEST, Bound
from frazil.scan.topic_rows import TopicRows

FORMAT = "frazil-rows"


@dataclass(frozen=True)
class RowStreamSettings(SettingsFile):
    config: Config
    topic: str
    starts: dict[int, int]
    max_rows: int
    max_bytes: int


@dataclass(frozen=True)
class _PipelineOptions(SourceOptions):
    given: RowStreamSettings

    def open(self) -> TopicRows:
        return TopicRows(self.given.config, self.given.topic, "both")


class RowSource(DataSource):
    """The data source of `spark.readStream.format(FORMAT).option("settings", file)`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self._options().open().schema())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TopicStream(self._options(), schema)

    def _options(self) -> SourceOptions:
        settings = RowStreamSettings.load(Path(self.options["settings"]))
        return _PipelineOptions(
            topic=settings.topic,
            config=None,
            read="both",
            starts=Bound(0, settings.starts),
            ends=Bound(LATEST),
            tail=False,
            limits=BatchLimits(settings.max_rows, settings.max_bytes),
            given=settings,
        )
