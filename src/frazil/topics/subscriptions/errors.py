"""What can go wrong between a subscription and those who consume it."""

from __future__ import annotations

from frazil.errors import RequestError, TransactionLogError


class SubscriptionFenced(TransactionLogError):
    """Raised when another process has taken a subscription over, or somebody deleted it; this one has stopped."""


class ConsumerRefused(RequestError):
    """Raised when a consumer may not join: the subscription is exclusive and taken, or of another type."""


class ConsumerGone(RequestError):
    """Raised when a consumer is used that has left, or whose session another of its name took over."""


class NotDelivered(RequestError):
    """Raised when a message is acknowledged or refused that was never handed out."""


class CumulativeRefused(RequestError):
    """Raised when messages are acknowledged up to an offset where consumers share a partition."""
