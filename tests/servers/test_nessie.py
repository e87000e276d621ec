"""Tests that the catalog of the tests is a real one: PyIceberg writes through it, also through a proxy."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer


def test_a_table_is_written_and_read(nessie: NessieServer, namespace: str) -> None:
    catalog = load_catalog("tests", **nessie.properties())
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = catalog.create_table(f"{namespace}.events", rows.schema)
    table.append(rows)
    assert table.location().startswith("s3://frazil/warehouse/")
    assert catalog.load_table(f"{namespace}.events").scan().to_arrow().equals(rows)


def test_all_requests_of_a_client_of_the_proxy_go_through_it(
    nessie: NessieServer, nessie_proxy: Proxy, namespace: str
) -> None:
    catalog = load_catalog("tests", **nessie.properties(nessie_proxy.endpoint))
    catalog.create_namespace(namespace)
    catalog.create_table(f"{namespace}.events", pa.schema({"id": pa.int64()}))
    assert nessie_proxy.count("POST") == 2
