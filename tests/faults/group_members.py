"""Members of a consumer group that are killed, frozen and told to leave.

Each member is a `frazil ingest` with a disk of its own. They share only the broker and the store.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from frazil.failpoints import VARIABLE
from tests.cli.support import FRAZIL, environment
from tests.servers.child import Child
from tests.servers.kafka import KafkaServer
from tests.servers.seaweedfs import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY

PARTITIONS = 4
SESSION_SECONDS = 3.0
"""How long a member may be silent. With a shorter time a slow machine would be taken for a dead one."""
WAIT_SECONDS = 120.0

Settings = dict[str, Any]


def door_settings(kafka: KafkaServer, topic: str, store: Mapping[str, Any], seal_seconds: float = 0.2) -> Settings:
    """Returns the settings of all members, with which they seal and detect failures quickly."""
    return {
        "store": dict(store),
        "kafka": {
            "bootstrap_servers": [kafka.bootstrap],
            "topics": [topic],
            "consumer_group": topic,
            "batch_timeout_ms": 20,
            "settings": {
                "session.timeout.ms": int(SESSION_SECONDS * 1000),
                "heartbeat.interval.ms": 300,
                "reconnect.backoff.max.ms": 500,
            },
            "retry": {"base_delay_ms": 20, "max_delay_seconds": 0.5},
        },
        "buffer": {"flush_interval_seconds": seal_seconds},
        "server": {"port": 0},
    }


def s3_settings(endpoint: str, prefix: str, timeout_seconds: float = 20.0) -> dict[str, Any]:
    return {
        "url": f"s3://{BUCKET}/{prefix}",
        "options": {"endpoint": endpoint, "region": "us-east-1"},
        "access_key_id": ACCESS_KEY_ID,
        "secret_access_key": SECRET_ACCESS_KEY,
        "timeout_seconds": timeout_seconds,
    }


class Member:
    """A member process, which runs until it is told otherwise."""

    def __init__(self, folder: Path, settings: Settings, failpoint: str | None = None) -> None:
        folder.mkdir(parents=True)
        (folder / "frazil.yaml").write_text(yaml.safe_dump(settings))
        env = environment(**({VARIABLE: failpoint} if failpoint else {}))
        self._child = Child([str(FRAZIL), "ingest"], folder / "said.log", folder, env)

    @property
    def alive(self) -> bool:
        return self._child.alive

    @property
    def ready(self) -> bool:
        """Returns whether it has printed the address of its health endpoint, which it prints last."""
        return "/health" in self.said

    @property
    def said(self) -> str:
        return self._child.log()

    def kill(self) -> None:
        self._child.kill()

    def leave(self) -> None:
        """Stops it cleanly, so that it hands its partitions over."""
        self._child.signal(signal.SIGTERM)
        assert self._child.wait(WAIT_SECONDS) == 130, self.said

    def freeze(self) -> None:
        self._child.signal(signal.SIGSTOP)
        # It takes a moment until all its threads have stopped.
        while _state(self._child.pid) != "T":
            time.sleep(0.001)

    def thaw(self) -> None:
        self._child.signal(signal.SIGCONT)


class Group:
    """The members of a group. Members can be added and removed."""

    def __init__(self, folder: Path, kafka: KafkaServer, topic: str) -> None:
        self.members: list[Member] = []
        self._folder = folder
        self._kafka = kafka
        self._topic = topic
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    def start(self, settings: Settings, failpoint: str | None = None) -> Member:
        self._started += 1
        member = Member(self._folder / f"member-{self._started}", settings, failpoint)
        self.members.append(member)
        return member

    def kill(self, member: Member) -> None:
        member.kill()
        self.members.remove(member)

    def leave(self, member: Member) -> None:
        member.leave()
        self.members.remove(member)

    def offsets(self) -> dict[int, int]:
        """Returns the offsets that the group has committed."""
        return self._kafka.group_offsets(self._topic, self._topic)

    def wait_for(self, done: Callable[[], bool], what: str, mortal: Collection[Member] = ()) -> None:
        """Waits until a condition is true. Meanwhile no member may end by itself, except those that are `mortal`."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not done():
            dead = [member for member in self.members if not member.alive and member not in mortal]
            assert not dead, f"a member ended by itself:\n{dead[0].said}"
            said = "\n".join(member.said[-3000:] for member in self.members)
            assert time.monotonic() < deadline, f"not {what}; the group is at {self.offsets()}; members said:\n{said}"
            time.sleep(0.1)

    def wait_for_progress(self, partitions: int = 1) -> None:
        """Waits until the group has committed further in this many partitions."""
        before = self.offsets()

        def further() -> bool:
            return (
                sum(offset > before.get(partition, 0) for partition, offset in self.offsets().items()) >= partitions
            )

        self.wait_for(further, f"further in {partitions} partitions")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
