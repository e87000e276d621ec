"""Finds IP addresses in texts, and tells whether one is in a range."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from frazil.ops.short_texts import remember_short
from frazil.query.logql.go_numbers import quoted

_VERSION_4 = re.compile(r"[0-9]+(?:\.[0-9]+){3,}\.?")
_VERSION_6 = re.compile(r"[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F.:]*")


class AddressFault(ValueError):
    """Raised when a pattern is no address, network or range."""


@dataclass(frozen=True)
class AddressRange:
    version: int
    first: int
    last: int

    def in_text(self, text: str) -> bool:
        """Returns whether an address of the range is somewhere in the text."""
        candidates = (_VERSION_4 if self.version == 4 else _VERSION_6).findall(text)
        return any(self._has(candidate) for candidate in candidates)

    def _has(self, candidate: str) -> bool:
        try:
            address = ipaddress.ip_address(candidate.rstrip("."))
        except ValueError:
            return False
        return address.version == self.version and self.first <= int(address) <= self.last


@remember_short(1024)
def address_range(pattern: str) -> AddressRange:
    """Reads an address, a network such as `10.0.0.0/8`, or a range such as `10.0.0.1-10.0.0.9`."""
    try:
        if "-" in pattern:
            first, last = map(ipaddress.ip_address, pattern.split("-", 1))
            if first.version != last.version or int(first) > int(last):
                raise ValueError
            return AddressRange(first.version, int(first), int(last))
        network = ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        raise AddressFault(f"ip: invalid pattern: {quoted(pattern)}") from None
    return AddressRange(network.version, int(network.network_address), int(network.broadcast_address))
