"""The data source `frazil` for Spark, which looks in every session for packages named `pyspark_*`.

    spark.read.format("frazil").option("topic", "orders").load()

Spark imports this for whatever data source a job uses, so the work is imported only when this one is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Reads the rows of a topic: hot, cold or both."""

    @classmethod
    def name(cls) -> str:
        return "frazil"

    def schema(self) -> StructType:
        from frazil.pipeline.datasource.options import rows_of
        from frazil.pipeline.datasource.spark_types import spark_schema

        return spark_schema(rows_of(self.options).schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        from frazil.pipeline.datasource.batch import TopicReader
        from frazil.pipeline.datasource.options import SourceOptions

        return TopicReader(SourceOptions.parse(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from frazil.pipeline.datasource.options import SourceOptions
        from frazil.pipeline.datasource.stream import TopicStream

        return TopicStream(SourceOptions.parse(self.options, stream=True), schema)
