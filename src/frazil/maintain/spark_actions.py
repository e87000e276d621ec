"""Calls the Spark actions of Iceberg's Java library, and translates their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyiceberg.table import Table
from pyspark.errors import PySparkException

from frazil.config.model import Config
from frazil.disk.durable import sync_file, sync_folder
from frazil.errors import CasConflict, SparkFailed
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.catalog.spark import spark_catalog_name
from frazil.maintain.files import normalized_path
from frazil.pipeline.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONFLICTS = ("CommitFailedException", "ValidationException", "CommitStateUnknownException")
_DEEPEST = 20


def sql_name(config: Config, identifier: Identifier) -> str:
    """Returns the quoted name of a table in Spark SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in (spark_catalog_name(config), *identifier))


def actions(spark: SparkSession) -> Any:
    return _java(spark).org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)


def java_table(spark: SparkSession, config: Config, identifier: Identifier) -> Any:
    """Loads the table in Iceberg's Java library."""
    loader = _java(spark).org.apache.iceberg.spark.Spark3Util
    return loader.loadIcebergTable(spark._jsparkSession, sql_name(config, identifier))


def expressions(spark: SparkSession) -> Any:
    return _java(spark).org.apache.iceberg.expressions.Expressions


@contextmanager
def translating_errors(action: str, identifier: Identifier) -> Iterator[None]:
    """Translates errors of Spark to Frazil's. `CasConflict` means that somebody else changed the table."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        if any(name.endswith(_CONFLICTS) for name in _class_names(error)):
            raise CasConflict(
                f"{action} {dotted(identifier)}: somebody else changed the table meanwhile, so it is left as it is."
            ) from error
        raise SparkFailed(f"{action} {dotted(identifier)}: {first_line(error)}.") from error


def sync_to_disk(before: Table, after: Table, written: list[str]) -> None:
    """Syncs the local files that Spark wrote to disk, because Spark does not."""
    paths = [after.metadata_location, *written]
    known = {snapshot.snapshot_id for snapshot in before.metadata.snapshots}
    for snapshot in after.metadata.snapshots:
        if snapshot.snapshot_id not in known:
            paths.append(snapshot.manifest_list)
            paths += [each.manifest_path for each in snapshot.manifests(after.io)]
    local = [Path(normalized_path(path)) for path in paths if normalized_path(path).startswith("/")]
    for path in local:
        try:
            with path.open("rb") as file:
                sync_file(file.fileno())
        except FileNotFoundError:
            continue
    for folder in {path.parent for path in local}:
        if folder.is_dir():
            sync_folder(folder)


def _java(spark: SparkSession) -> Any:
    java: Any = spark._jvm
    # Catalogs take their settings from the active session of this thread, whichever session is passed to them.
    java.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    return java


def _class_names(error: BaseException) -> Iterator[str]:
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    for _ in range(_DEEPEST):
        if cause is None:
            return
        yield cause.getClass().getName()
        cause = cause.getCause()
