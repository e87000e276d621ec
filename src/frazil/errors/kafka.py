"""Names what goes wrong with Kafka brokers, consumer groups and the schema registry."""

from __future__ import annotations

from frazil.errors.base import FrazilError


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
