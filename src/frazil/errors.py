"""Every error Frazil raises, as one tree.

A kind right under `FrazilError` decides the process's exit code and what the error counts as in
`frazil_errors_total`. `retryable` tells a caller whether the same call can succeed later without anybody changing
anything.
"""

from __future__ import annotations

from typing import Self


class FrazilError(Exception):
    """The root of all errors of Frazil; also raised for what fits no other kind."""

    exit_code = 10
    kind = "other"
    retryable = False
    public = False
    """Whether the text names nothing of the server: no folder, no address, no credentials."""

    def for_clients(self) -> str | None:
        """What may be told to whoever sent a request; None when that is for the server's log only."""
        return str(self) if self.public else None

    def again(self) -> Self:
        """A copy to raise: one that is raised twice would keep the frames of both alive."""
        return type(self)(*self.args)


# --- configuration ---------------------------------------------------------------------------------------


class ConfigError(FrazilError):
    """Raised when a setting is unknown, missing or wrong."""

    exit_code = 1
    kind = "config"


class CallError(ConfigError):
    """Raised when somebody asks for what cannot be: a name, a partition, a column, a range or a condition."""

    public = True


# --- Kafka -----------------------------------------------------------------------------------------------


class KafkaError(FrazilError):
    """Raised when a Kafka broker or a consumer group fails."""

    exit_code = 2
    kind = "kafka"


class ConnectionFailed(KafkaError):
    """Raised when no broker can be reached."""

    retryable = True


class ConsumerGroup(KafkaError):
    """Raised when joining or staying in the consumer group fails."""

    retryable = True


class OffsetCommit(KafkaError):
    """Raised when group offsets cannot be committed; the log has the positions that count."""

    retryable = True


class PartitionAssignment(KafkaError):
    """Raised when assigned partitions cannot be taken over or given up."""

    retryable = True


class KafkaTimeout(KafkaError):
    """Raised when a broker does not answer in time."""

    retryable = True


class BackpressureEngaged(KafkaError):
    """Raised when a partition has to be paused, because the log has no room for more of it."""

    retryable = True


class MessageParse(KafkaError):
    """Raised when a message that was asked for cannot become a row: undecodable, or it does not fit its table."""

    public = True


class ConsumerClosed(KafkaError):
    """Raised when a closed consumer is used."""


class KafkaUnavailable(KafkaError):
    """Raised when a broker or the client fails in a way that may pass."""

    retryable = True


class KafkaRefused(KafkaError):
    """Raised when a broker does not accept the credentials, or does not permit what was asked."""


class KafkaTopicMissing(KafkaError):
    """Raised when a topic that is to be consumed is not in the cluster."""


class KafkaTopicReplaced(KafkaError):
    """Raised when a topic was deleted and made anew; the new one is consumed only when a person says so."""


class KafkaOffsetsGone(KafkaError):
    """Raised when Kafka no longer has the offsets that come next; a person must say that they are lost."""

    public = True


class RegistryError(KafkaError):
    """Raised when the schema registry fails, or answers what makes no sense."""

    kind = "registry"


class RegistryUnavailable(RegistryError):
    """Raised when the schema registry does not answer, or fails in a way that may pass."""

    retryable = True


class RegistryRefused(RegistryError):
    """Raised when the schema registry does not accept the credentials, or does not permit what was asked."""


class SchemaNotRegistered(RegistryError):
    """Raised when the schema registry says that it has no such schema."""


class SchemaUnsupported(KafkaError):
    """Raised when a registered schema cannot be read, or has no columns that a table could have."""


# --- buffer: what is in memory ---------------------------------------------------------------------------


class BufferingError(FrazilError):
    """Raised when records cannot be kept in memory."""

    public = True
    kind = "buffer"


class BufferFull(BufferingError):
    """Raised when a buffer has no room for more records."""

    retryable = True


class LogFull(BufferFull):
    """Raised when the tail of a log stayed full for the whole time an append may wait."""


class NotBuffered(BufferingError):
    """Raised when records are asked for that are not in memory any more; `first` is the first offset that is."""

    def __init__(self, message: str, first: int | None = None) -> None:
        super().__init__(message)
        self.first = first


class ArrowConversion(BufferingError):
    """Raised when values cannot be turned into Arrow arrays of the type that they are to have."""


class SchemaMismatch(BufferingError):
    """Raised when records do not fit the schema of their topic, nor a schema it may evolve to."""


class MemoryAlignment(BufferingError):
    """Raised when a buffer of an Arrow file or stream does not begin where Arrow's format lets it begin."""


class EmptyBuffer(BufferingError):
    """Raised when something is asked of a buffer that has no records."""


class RecordTooLarge(BufferingError):
    """Raised when one append is larger than the log's limit."""


# --- Iceberg ---------------------------------------------------------------------------------------------


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


# --- log and transaction log -----------------------------------------------------------------------------


class LogError(FrazilError):
    """Raised when the log (its WAL, its segments) or the transaction log fails."""

    exit_code = 5
    kind = "txlog"


class LogCorrupted(LogError):
    """Raised when bytes that were stored cannot be read back."""


class ChecksumMismatch(LogCorrupted):
    """Raised when a frame does not match its checksum."""


class WalDamaged(LogCorrupted):
    """Raised when the WAL of a partition is damaged: `frazil log repair` makes it work again."""


class PartitionDamaged(LogCorrupted):
    """Raised when a partition is stopped, because what is stored of it cannot be read back. All others go on."""

    def __init__(self, where: str, cause: str, command: str = "") -> None:
        """`where` is TOPIC/PARTITION; `command` is a line for a shell on the server that repairs it, if one does."""
        super().__init__(where, cause, command)

    @property
    def command(self) -> str:
        return str(self.args[2])

    def __str__(self) -> str:
        where, cause, command = self.args
        told = f"{where} is stopped, nothing is stored or read there: {cause}"
        return f"{told} Run: {command}" if command else told

    def for_clients(self) -> str:
        where = self.args[0]
        return (
            f"{where} is stopped, nothing is stored or read there: what is stored of it is damaged. On the server, "
            f"/health and the log say how to repair it (`frazil log repair {where}`)."
        )


class LogVersionUnsupported(LogError):
    """Raised when a file was written by a newer version of Frazil."""


class RecoveryFailed(LogError):
    """Raised when the state after a stop cannot be rebuilt."""


class CheckpointFailed(LogError):
    """Raised when a checkpoint could not be written."""

    retryable = True


class WriteFailed(LogError):
    """Raised when a frame could not be written; it is not stored."""

    retryable = True


class LogBroken(LogError):
    """Raised when the disk failed in a way that leaves the newest frames unknown; reopening reads them again."""


class PartitionLocked(LogError):
    """Raised when another process on this machine holds the partition's directory."""

    retryable = True


class PartitionFenced(LogError):
    """Raised when another writer came first; what was waiting is not stored and may be sent again."""

    public = True
    retryable = True


class PartitionTaken(LogError):
    """Raised when another writer owns a partition for good; its local records wait for `frazil log repair`."""


class SequenceTooOld(LogError):
    """Raised when a producer repeats a sequence so old that its offset is no longer known."""

    public = True


class SegmentsGone(LogError):
    """Raised when a read starts before the first offset that is left."""

    public = True


class SegmentMissing(LogError):
    """Raised when a segment that must exist does not, or is shorter than it must be."""


class OffsetOutOfRange(LogError):
    """Raised when a read goes past the end of the log."""

    public = True


class OffsetGone(LogError):
    """Raised when the messages a reader is at are neither in the log nor in the table; `first_left` is the next."""

    public = True

    def __init__(self, first_left: int, message: str = "") -> None:
        super().__init__(message or f"The messages before offset {first_left} are gone.")
        self.first_left = first_left

    def again(self) -> Self:
        return type(self)(self.first_left, self.args[0])


class EpochChanged(LogError):
    """Raised when a reader's position is in a part of the log that a new epoch replaced."""

    public = True


class TopicNotFound(LogError):
    """Raised when a topic does not exist: its name is wrong, the log is not."""

    public = True
    exit_code = 1


class SubscriptionFenced(LogError):
    """Raised when another process has taken a subscription over, or somebody deleted it; this one has stopped."""

    public = True


# --- pipeline --------------------------------------------------------------------------------------------


class PipelineError(FrazilError):
    """Raised when Spark, or what it needs, is not there or fails."""

    kind = "spark"


class JavaNotFound(PipelineError):
    """Raised when there is no Java that Spark can run on."""


class JarsUnavailable(PipelineError):
    """Raised when a jar that Spark needs is neither in the cache nor can be fetched."""

    retryable = True


class SparkFailed(PipelineError):
    """Raised when Spark does not start, or stops by itself."""

    retryable = True


# --- everything else -------------------------------------------------------------------------------------


class StorageError(FrazilError):
    """Raised when an object store fails."""

    exit_code = 4
    kind = "storage"


class StorageUnavailable(StorageError):
    """Raised when an object store does not answer, or fails in a way that may pass; the outcome is unknown."""

    retryable = True


class ObjectExists(StorageError):
    """Raised when a create-only put finds an object of that name."""


class ObjectNotFound(StorageError):
    """Raised when there is no object of that name."""


class TableDamaged(StorageError):
    """Raised when a file of a table is not as it was written: its checksums say so, or it cannot be decoded.
    Names the file below the warehouse."""

    public = True


class FrazilIoError(FrazilError):
    """Raised when the local file system fails."""

    exit_code = 4
    kind = "storage"


class DiskFull(FrazilIoError):
    """Raised when the disk has no room; nothing of the call is stored."""

    retryable = True

    def for_clients(self) -> str:
        return "There is no room on the disk of the server, and nothing of this was stored. Try again later."


class SerializationError(FrazilError):
    """Raised when bytes and values cannot be turned into each other."""

    public = True


class RequestError(FrazilError):
    """Raised when a request cannot be answered as it stands: something in it is wrong or missing."""

    public = True
    exit_code = 1


class InvalidTenant(RequestError):
    """Raised when a request names a tenant that cannot be one."""


class InvalidTopic(RequestError):
    """Raised when a topic's name, or what a topic is to be created with, is wrong."""


class TopicMismatch(RequestError):
    """Raised when a topic exists and is of another kind than somebody takes it for."""


class TableTaken(TopicMismatch):
    """Raised when a topic cannot come to be, because a table that it would have is another topic's."""


class SubscriptionNotFound(RequestError):
    """Raised when there is no such subscription of a topic."""


class SubscriptionMismatch(RequestError):
    """Raised when a subscription is of another type than somebody asks for."""


class ConsumerRefused(RequestError):
    """Raised when a consumer may not join: the subscription is exclusive, and taken."""


class ConsumerGone(RequestError):
    """Raised when a consumer is used that has left, or whose session another of its name took over."""


class NotDelivered(RequestError):
    """Raised when a message is acknowledged or refused that was never handed out."""


class CumulativeRefused(RequestError):
    """Raised when messages are acknowledged up to an offset where consumers share a partition."""


class InvalidMessage(RequestError):
    """Raised when a message cannot be stored as it is."""


class MessageTooLarge(InvalidMessage):
    """Raised when a message is over the limit of messages."""


class QueryError(RequestError):
    """Raised when a query is wrong, or asks for what is not there or not allowed."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def again(self) -> Self:
        return type(self)(self.args[0], self.line, self.column)


class QueryTooLarge(QueryError):
    """Raised when a query needs more memory, or has more rows, than queries may."""


class QueryTimeout(QueryError):
    """Raised when a query takes longer than queries may."""


class QueriesBusy(FrazilError):
    """Raised when too many queries run already, and none ended in time."""

    public = True
    retryable = True


class TooMuch(FrazilError):
    """Raised when more comes than can be taken now; `seconds` later it may be tried again."""

    public = True
    retryable = True

    def __init__(self, message: str, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class RateExceeded(TooMuch):
    """Raised when it is a tenant that sends more than it may."""


class ShutdownError(FrazilError):
    """Raised when something is asked of a part that is shutting down."""

    public = True
    retryable = True


class DependencyUnavailable(FrazilError):
    """Raised instead of a call to something that has failed too often; it is tried again after a while."""

    retryable = True

    def __init__(self, message: str, cause: FrazilError | None = None, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.cause = cause
        self.retry_after_seconds = retry_after_seconds
        if cause is not None:
            self.exit_code = cause.exit_code
            self.kind = cause.kind

    def again(self) -> Self:
        return type(self)(self.args[0], self.cause, self.retry_after_seconds)


class HealthCheckFailed(FrazilError):
    """Raised when a running Frazil is unhealthy or does not answer."""

    exit_code = 6
    retryable = True


class Interrupted(FrazilError):
    """Raised when a signal ended the work."""

    exit_code = 130
