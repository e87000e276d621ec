"""Translates errors of calls to a catalog into errors of Frazil."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pydantic
import pyiceberg.exceptions as iceberg
import requests  # PyIceberg's REST catalog raises its errors.
from sqlalchemy import exc as sql

from frazil.errors import (
    CasConflict,
    CatalogConnection,
    CatalogRefused,
    ConfigError,
    DiskFull,
    FrazilError,
    IcebergError,
    StorageError,
    StorageUnavailable,
    TableExists,
    TableNotFound,
)

_CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_REFUSED_SQL = re.compile(r"authentication failed|permission denied|readonly database|does not exist", re.IGNORECASE)
_REFUSED_STORE = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|HTTP status 403", re.IGNORECASE
)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_UNKNOWN = (
    iceberg.CommitStateUnknownException,
    iceberg.ServerError,
    iceberg.ServiceUnavailableError,
    iceberg.TooManyRequestsError,
    iceberg.WaitingForLockException,
    requests.RequestException,
)
_REFUSED = (
    iceberg.UnauthorizedError,
    iceberg.ForbiddenError,
    iceberg.OAuthError,
    iceberg.AuthorizationExpiredError,
    iceberg.SignError,
)


@contextmanager
def calling(action: str) -> Iterator[None]:
    """Turn errors of catalogs and file access into errors of Frazil. `action` says what was being done to what.

    A `CatalogConnection` or `StorageUnavailable` from a commit leaves its outcome unknown; a `CasConflict` does not.
    """
    try:
        yield
    except FrazilError:
        raise
    # The errors of PyIceberg have no common base class, and its dependencies raise their own.
    except Exception as error:
        translated = _translate(error, action)
        if translated is None:
            raise
        raise translated from error


def _translate(error: Exception, action: str) -> FrazilError | None:
    said = f"{action}: {_first_sentence(error)}"
    match error:
        case iceberg.CommitFailedException():
            return CasConflict(f"{said} Somebody else changed the table meanwhile.")
        case iceberg.TableAlreadyExistsError():
            return TableExists(said)
        case iceberg.NoSuchTableError() | iceberg.NoSuchNamespaceError():
            return TableNotFound(said)
        case iceberg.NotInstalledError() | iceberg.NoSuchPropertyException():
            return ConfigError(said)
        case _ if isinstance(error, _REFUSED):
            return CatalogRefused(f"{said} Check the catalog's credentials and permissions.")
        case _ if isinstance(error, _UNKNOWN):
            return CatalogConnection(f"{said} Check that the catalog runs and that its uri is right.")
        case iceberg.RESTError() | NotImplementedError() | iceberg.ValidationError() | iceberg.ValidationException():
            return IcebergError(said)
        case pydantic.ValidationError():
            return CatalogConnection(f"{action}: what answered does not speak as a catalog does. Check its uri.")
        case sql.DBAPIError() if _REFUSED_SQL.search(said):
            return CatalogRefused(f"{said} Check the catalog's uri, credentials and permissions.")
        case sql.SQLAlchemyError():
            return CatalogConnection(f"{said} Check that the catalog's database runs and has room.")
        case OSError():
            return _file_error(error, said)
    return None


def _file_error(error: OSError, said: str) -> FrazilError:
    if error.errno in _NO_ROOM:
        return DiskFull(f"{said} Make room and it will go on.")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS or _REFUSED_STORE.search(said):
        return StorageError(f"{said} Check that the warehouse may be read and written.")
    if isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError | NotADirectoryError):
        return StorageError(said)
    return StorageUnavailable(f"{said} Check that the warehouse can be reached.")


def _first_sentence(error: Exception) -> str:
    """Return the first line of a library's error as a sentence, without credentials."""
    if isinstance(error, sql.DBAPIError):
        text = str(error.orig)
    elif isinstance(error, OSError) and error.errno and not isinstance(error, requests.RequestException):
        text = f"{os.strerror(error.errno)} ({error.filename})" if error.filename else str(error)
    else:
        text = str(error)
    lines = text.strip().splitlines()
    first = redacted(lines[0] if lines else type(error).__name__)
    return first if first.endswith((".", "!", "?")) else f"{first}."


def redacted(text: str) -> str:
    return _CREDENTIALS_IN_URL.sub("", text)
