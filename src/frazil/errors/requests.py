"""Requests that cannot be answered as they stand, or not now."""

from __future__ import annotations

from typing import Self

from frazil.errors.base import FrazilError


class RequestError(FrazilError):
    """Raised when a request cannot be answered as it stands: something in it is wrong or missing."""

    public = True
    exit_code = 1


class BodyTooLarge(RequestError):
    """Raised when the body of a request is over its limit, compressed or not."""


class BodyUnsupported(RequestError):
    """Raised when a body is of a content type, or compressed in a way, that is not read here."""


class NotSupported(RequestError):
    """Raised when something is asked for that Frazil does not do."""


class IdUnknown(RequestError):
    """Raised when a request names an id that was never given to anybody."""


class ProducerRefused(RequestError):
    """Raised when somebody else produces to a topic exclusively."""


class RequestCancelled(RequestError):
    """Raised when the client of a request has gone, so that nobody waits for the answer."""


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


class QueryProcessDied(FrazilError):
    """Raised when the process that was to answer a query ended, or did not start. The next query has another one."""

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
