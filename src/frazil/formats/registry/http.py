"""Requests to a schema registry. Each has a connection of its own, for they are few, and processes are forked.

Answers are told apart by what can be done about them.
"""

from __future__ import annotations

import base64
import json
import ssl
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from frazil.config.sections.kafka import RegistryConfig
from frazil.errors import ConfigError, RegistryError, RegistryRefused, RegistryUnavailable
from frazil.ops.http_client import HttpClient, RequestFailed, untrusted_certificate

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
LARGEST_ANSWER = 64 * 1024 * 1024
"""No schema has this many bytes, but a wrong address may answer anything."""

_MAY_PASS = {408, 425, 429}
_HAS_NONE = {40401, 40402, 40403}
"""A registry answers with these numbers that it has no such subject, version or schema. A wrong address answers 404
too, but without such a number."""


class RegistryHttp:
    def __init__(self, config: RegistryConfig) -> None:
        if not config.url:
            raise ConfigError("kafka.registry.url: this format needs a schema registry, and none is set.")
        parts = _parts(config.url)
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        """This is the address of the registry, without credentials."""
        self._timeout = config.timeout_seconds
        self._tls = _tls(config) if parts.scheme == "https" else None
        self.proven = False
        """This is true once the address has answered as only a registry does."""
        self._headers = {"Accept": ACCEPT, "Connection": "close"}
        user, password = _credentials(config, parts.username, parts.password)
        if user is not None:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"

    def get(self, path: str, *, common: bool = True) -> dict[str, Any] | None:
        """Return the answer, or None when the registry says that it has no such thing.

        Some registries do not know paths that are not `common` at all. Where a registry has answered before, any 404
        then means that it has no such thing.
        """
        where = f"{self.address}{path}"
        try:
            status, body = self._ask(path)
        except RequestFailed as error:
            if reason := untrusted_certificate(error):
                raise RegistryRefused(
                    f"The certificate of {self.address} is not trusted: {reason}. Set kafka.registry.ca_location to "
                    f"the certificates that are."
                ) from error
            raise RegistryUnavailable(f"The schema registry does not answer: GET {where}: {error}.") from error
        if status == 404 and self.proven and not common:
            return None
        found = _interpreted(status, body, where)
        self.proven = True
        return found

    def _ask(self, path: str) -> tuple[int, bytes]:
        client = HttpClient(self.address, self._timeout, self._headers, self._tls)
        try:
            with client.ask("GET", path) as answer:
                return answer.status, answer.read(LARGEST_ANSWER)
        finally:
            client.close()


def _parts(url: str) -> SplitResult:
    parts = urlsplit(url)
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("kafka.registry.url: must be http://HOST:PORT or https://HOST:PORT, perhaps with a path.")
    return parts


def _interpreted(status: int, body: bytes, where: str) -> dict[str, Any] | None:
    answer = _json(body)
    if status == 200 and answer is not None:
        return answer
    said = f"GET {where}: {status} {_message_of(answer, body)}"
    if status in (401, 403):
        raise RegistryRefused(f"The schema registry refuses: {said}. Look at kafka.registry.username and password.")
    if status >= 500 or status in _MAY_PASS:
        raise RegistryUnavailable(f"The schema registry fails: {said}.")
    if status == 404 and answer is not None and answer.get("error_code") in _HAS_NONE:
        return None
    raise RegistryError(f"This is not how a schema registry answers: {said}. Look at kafka.registry.url.")


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _message_of(answer: dict[str, Any] | None, body: bytes) -> str:
    said = answer.get("message") if answer is not None else None
    return str(said or body[:200].decode(errors="replace")).strip().rstrip(".")


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


def _credentials(config: RegistryConfig, user: str | None, password: str | None) -> tuple[str | None, str]:
    """Return the user and password of the settings, or else those in the address."""
    if config.username is not None:
        return config.username, config.password.get_secret_value() if config.password else ""
    return (unquote(user) if user is not None else None), unquote(password or "")


def _tls(config: RegistryConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.ca_location)
        if config.certificate_location is not None:
            context.load_cert_chain(config.certificate_location, config.key_location)
    except (OSError, ssl.SSLError) as error:
        files = [config.ca_location, config.certificate_location, config.key_location]
        named = ", ".join(str(file) for file in files if file is not None)
        raise ConfigError(f"kafka.registry: cannot read the certificates in {named}: {_reason(error)}.") from error
    return context
