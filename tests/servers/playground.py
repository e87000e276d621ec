"""Runs a Kafka broker and a schema registry to try things with (`make kafka`). Their data is gone when they end."""

from __future__ import annotations

import signal
import socket
import sys
import tempfile
from pathlib import Path

from tests.servers.broker import Broker
from tests.servers.jars import say
from tests.servers.registry import Registry, RegistryServer

KAFKA_PORT = 9092
REGISTRY_PORT = 8081


def main() -> int:
    taken = [port for port in (KAFKA_PORT, REGISTRY_PORT) if _is_taken(port)]
    if taken:
        say(f"Port {taken[0]} is in use; is there a Kafka already?")
        return 1
    with tempfile.TemporaryDirectory(prefix="frazil-kafka-") as folder:
        broker = Broker(Path(folder) / "kafka", KAFKA_PORT)
        broker.start()
        registry = Registry.start(Path(folder) / "registry", REGISTRY_PORT)
        say(f"Kafka            {broker.bootstrap}")
        say(f"schema registry  {RegistryServer(registry.endpoint).url}")
        say("Ctrl-C stops them.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            registry.stop()
            broker.stop()
    return 0


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
