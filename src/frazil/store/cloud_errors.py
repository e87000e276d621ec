"""Translates the errors of `obstore` into ours, which say what the caller can do.

`obstore` has classes for a few outcomes. All others are one class, whose text has the HTTP status and the body of the
answer, or how the connection failed.
"""

from __future__ import annotations

import re

from obstore.exceptions import AlreadyExistsError, PreconditionError

from frazil.errors import FrazilError, ObjectExists, ObjectNotFound, StorageError, StorageUnavailable

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]*)")
_CONNECTION = re.compile(r"HttpError \{\s*kind: (\w+)")
_SYSTEM = re.compile(r'(?:message|error): "([^"\n]*)"')

_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
# These are temporary although they are not a 5xx: S3 answers 409 to one of two puts that race.
_PASSING = {408, 409, 425, 429}
_PASSING_CODES = {"RequestTimeout", "SlowDown"}

_CONNECTION_ENDS = {
    "Connect": "cannot connect",
    "Timeout": "no answer in time",
}


def status_of(error: Exception) -> int | None:
    """Return the HTTP status in an error of `obstore`, if there is one."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def translated(error: Exception, operation: str, key: str, url: str) -> FrazilError:
    text = str(error)
    status = status_of(error)
    code = _first(_CODE, text)
    where = f"{operation} {key!r} in {url}"
    answer = _answer(text, status, code)

    if operation == "put" and _exists(error, status, code):
        return ObjectExists(f"{where}: the object exists.")
    if code in _NO_BUCKET:
        return StorageError(f"{where}: the bucket or container does not exist. Create it, or correct `store.url`.")
    if operation != "put" and isinstance(error, FileNotFoundError):
        return ObjectNotFound(f"{where}: there is no such object.")
    if status in {401, 403} or code in {"ExpiredToken", "InvalidToken"}:
        return StorageError(
            f"{where}: not allowed, {answer}. Check the credentials, their permissions on this bucket, and the clock."
        )
    if status is None:
        return _without_answer(text, where, answer)
    if status in _PASSING or status >= 500 or code in _PASSING_CODES:
        return StorageUnavailable(f"{where}: {answer}. It may pass; the call can be repeated.")
    return StorageError(f"{where}: {answer}. Check `store.url` and `store.options` (endpoint, region).")


def _exists(error: Exception, status: int | None, code: str | None) -> bool:
    """Tell whether the object exists. Azure answers 409 for it, the others 412; their 409 means something else."""
    return isinstance(error, AlreadyExistsError | PreconditionError) and (
        status != 409 or code == "BlobAlreadyExists"
    )


def _without_answer(text: str, where: str, answer: str) -> FrazilError:
    if _CONNECTION.search(text):
        return StorageUnavailable(f"{where}: {answer}. Check that the store is up and `endpoint` is right.")
    return StorageError(f"{where}: {answer}.")


def _answer(text: str, status: int | None, code: str | None) -> str:
    """Describe the outcome in a few words, without URLs, which may carry a signature."""
    if status is not None:
        details = ": ".join(part for part in (code, _first(_MESSAGE, text)) if part)
        return f"the store answered {status}" + (f" ({details.rstrip('.')})" if details else "")
    end = _first(_CONNECTION, text)
    if end is None:
        return re.sub(r"\?\S+", "", text.split("\n", 1)[0])
    reason = _first(_SYSTEM, text)
    return _CONNECTION_ENDS.get(end, "the connection broke") + (f" ({reason})" if reason else "")


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None
