"""Checks certificates and keys before a server uses them."""

from __future__ import annotations

import ssl

from frazil.config.sections.endpoint import TlsConfig
from frazil.errors import ConfigError


def check_tls(tls: TlsConfig, section: str) -> None:
    """Raises `ConfigError` that says which file, by its setting in `section`, cannot be used."""
    if tls.cert is None or tls.key is None:
        return
    for name, path in (("cert", tls.cert), ("key", tls.key)):
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{section}.{name}: {path} cannot be read: {error.strerror}") from error
        # Loading such a key would ask for the passphrase on the terminal.
        if name == "key" and b"ENCRYPTED" in text:
            raise ConfigError(f"{section}.key: {path} has a passphrase; give a key without one")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(tls.cert)
    except ssl.SSLError as error:
        raise ConfigError(f"{section}.cert: {tls.cert} is no certificate in PEM") from error
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except ssl.SSLError as error:
        reason = "is not the key of" if error.reason == "KEY_VALUES_MISMATCH" else "is no key in PEM for"
        raise ConfigError(f"{section}.key: {tls.key} {reason} {tls.cert}") from error
