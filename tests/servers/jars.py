"""All jars that tests need. `python -m tests.servers.jars` fetches them, so that no test waits for the network."""

from __future__ import annotations

import sys

from frazil.pipeline.jars import PINS, Pin, fetch_jars

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
NESSIE = "org.projectnessie.nessie:nessie-quarkus:0.99.0:runner"

TEST_PINS = {**PINS, NESSIE: Pin("ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417", 245)}


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    fetch_jars([ICEBERG, AWS, SQLITE, NESSIE], say, pins=TEST_PINS)
