"""Names what goes wrong with catalogs and tables."""

from __future__ import annotations

from frazil.errors.base import FrazilError


class IcebergError(FrazilError):
    """Raised when a catalog or a table fails."""

    exit_code = 3
    kind = "iceberg"


class CatalogConnection(IcebergError):
    """Raised when the catalog cannot be reached."""

    retryable = True


class CatalogRefused(IcebergError):
    """Raised when the catalog does not accept the credentials, or does not permit what was asked."""


class TableNotFound(IcebergError):
    """Raised when a table is not in the catalog."""


class TableExists(IcebergError):
    """Raised when a table of that name is in the catalog already."""


class TableForeign(IcebergError):
    """Raised when a table of the wanted name was not made by Frazil, or belongs to another topic."""

    public = True


class CatalogLost(IcebergError):
    """Raised when the catalog is empty though there were tables in it; a person restores it, or registers them."""


class TableDropped(IcebergError):
    """Raised when a table that Frazil made is gone; it is made anew only when a person says so."""

    public = True


class TableReplaced(IcebergError):
    """Raised when another table stands where Frazil's was; it is used only when a person says so."""

    public = True


class TableRolledBack(IcebergError):
    """Raised when a table's rows and its offsets disagree: somebody went back in its history and must decide."""

    public = True


class SnapshotCommit(IcebergError):
    """Raised when the catalog does not take a snapshot, for a reason that does not pass by itself."""


class CommitUnknown(SnapshotCommit):
    """Raised when nobody can say yet whether a snapshot was committed; the same attempt may be committed again."""

    retryable = True


class ParquetWrite(IcebergError):
    """Raised when a data file could not be written."""

    retryable = True


class SchemaEvolution(IcebergError):
    """Raised when a table's schema cannot be changed as its topic needs."""


class CasConflict(IcebergError):
    """Raised when a table has changed since it was read."""

    retryable = True


class FileUpload(IcebergError):
    """Raised when a data file could not be stored."""

    retryable = True


class OffsetsAhead(IcebergError):
    """Raised when a table has rows that the log does not know of."""


class DeadLetterMissing(IcebergError):
    """Raised when a row does not fit now that fitted when the dead-letter table decided about it."""


class TableSchemaMismatch(IcebergError):
    """Raised when rows do not fit the schema of a table."""

    public = True
