"""A Kafka door in a process of its own: settings as one line on stdin, and it stops in good order when that ends."""

from __future__ import annotations

import sys

from frazil.config.model import Config
from tests.doors.kafka.support import running, until


def main() -> None:
    config = Config.model_validate_json(sys.stdin.readline())
    with running(config) as door:
        until(lambda: any(feed.next > 0 for feed in door.door.feeds))
        sys.stdout.write(f"took {sum(feed.next for feed in door.door.feeds)}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
