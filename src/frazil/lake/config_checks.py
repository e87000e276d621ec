"""Checks the settings of the lake as far as possible without calling the catalog."""

from __future__ import annotations

from pyiceberg.schema import Schema

from frazil.config.model import Config
from frazil.formats.kafka import is_kafka
from frazil.lake.catalog.properties import resolve_properties
from frazil.lake.catalog.spark import spark_settings
from frazil.lake.schema.layout import check_layout, errors_name_setting, layout_key, layout_properties
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import base_identifier
from frazil.log.topics.schemas import TopicSchemas
from frazil.store import ObjectStore


def check_settings(config: Config, store: ObjectStore) -> None:
    resolve_properties(config)
    spark_settings(config)
    for topic in config.topics:
        base_identifier(config, topic)
        check_base_layout(config, store, topic)
        for name in config.topic(topic).derived:
            check_derived_layout(config, topic, name)


def check_base_layout(config: Config, store: ObjectStore, topic: str) -> None:
    """Raises `ConfigError` if the base table could not be created. Columns are checked if the topic has a schema."""
    layout = config.topic(topic).table
    with errors_name_setting(layout_key(topic)):
        layout_properties(layout, config.iceberg)
        check_layout(layout, _columns(store, topic))


def check_derived_layout(config: Config, topic: str, name: str) -> None:
    """Raises `ConfigError` if the layout is wrong.

    Columns are not checked, because only Spark knows those of a query.
    """
    layout = config.topic(topic).derived[name]
    with errors_name_setting(layout_key(topic, name)):
        layout_properties(layout, config.iceberg)
        check_layout(layout, None)


def _columns(store: ObjectStore, topic: str) -> Schema | None:
    """Returns the columns of the base table.

    Returns None if the topic has no records yet, or if its columns are known only after the records are decoded.
    """
    newest = TopicSchemas(store, topic).latest()
    return None if newest is None or is_kafka(newest.schema) else base_table_schema(newest.schema)
