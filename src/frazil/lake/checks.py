"""What is wrong with the settings of the lake, as far as that can be known without asking the catalog."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.lake.layout import check_layout, layout_properties
from frazil.lake.properties import resolve_properties
from frazil.lake.schema import target_schema
from frazil.lake.spark_catalog import spark_settings
from frazil.lake.tables import base_identifier
from frazil.log.store import ObjectStore
from frazil.log.topics import TopicSchemas


def check_settings(config: Config, store: ObjectStore) -> None:
    """Layouts are checked against the columns of topics that exist."""
    resolve_properties(config)
    spark_settings(config)
    for topic, settings in config.topics.items():
        base_identifier(config, topic)
        try:
            layout_properties(settings.table)
            newest = TopicSchemas(store, topic).latest()
            if newest is not None:
                check_layout(settings.table, target_schema(newest.schema))
        except ConfigError as error:
            raise ConfigError(f"topics.{topic}.table.{error}") from error
