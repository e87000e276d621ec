"""All jars that tests need. `python -m tests.servers.jars` fetches them, and archives the classes of Spark."""

from __future__ import annotations

import sys

from frazil.pipeline.spark.jars import PINS, Pin, fetch_jars
from tests.servers.bundles import Bundle, fetch_bundle

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
NESSIE = "org.projectnessie.nessie:nessie-quarkus:0.99.0:runner"

TEST_PINS = {**PINS, NESSIE: Pin("ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417", 245)}

# Kafka logs through SLF4J, and brings no implementation of it.
KAFKA = Bundle(
    "kafka-4.3.1",
    '<dependency org="org.apache.kafka" name="kafka_2.13" rev="4.3.1" conf="default->default"/>'
    '<dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>',
    "929899bc0205a413e019af82b4ea9cd72ca842beec55d2912c6e09780eb2d3d6",
    47,
)
APICURIO = Bundle(
    "apicurio-registry-3.3.3",
    '<dependency org="io.apicurio" name="apicurio-registry-app" rev="3.3.3" transitive="false" '
    'conf="default->master">'
    '<artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/></dependency>',
    "0bf46bea407341bc5cc35b01fb72338a16472ffe506ca53a26bd8af8a41157cb",
    159,
)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    fetch_jars([ICEBERG, AWS, SQLITE, NESSIE], say, pins=TEST_PINS)
    for bundle in (KAFKA, APICURIO):
        fetch_bundle(bundle, say)
    from tests.servers.class_data import make_archive

    make_archive()
