"""Opening and asking a catalog, also one that is broken, absent or busy."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from frazil.errors import (
    CatalogConnection,
    CatalogRefused,
    ConfigError,
    FrazilError,
    IcebergError,
    StorageError,
    TableNotFound,
)
from frazil.lake.catalog.lake import Lake, calling
from tests.lake.support import TOPIC, local_config, make_base_table, nessie_config
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer, S3Server

COMMITS = 15


def rest_config(folder: Path, uri: str, seconds: float = 1.0) -> Lake:
    lake = {"properties": {"type": "rest", "uri": uri}, "timeout_seconds": seconds}
    return Lake(local_config(folder, lake=lake))


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    lake = Lake(local_config(tmp_path))
    assert not (tmp_path / "data" / "catalog.db").exists()
    with pytest.raises(TableNotFound, match=r"Loading table frazil\.orders from the sql catalog at sqlite"):
        lake.load(("frazil", "orders"))
    assert (tmp_path / "data" / "catalog.db").exists()


def test_namespaces_of_several_levels(tmp_path: Path) -> None:
    lake = Lake(local_config(tmp_path, lake={"namespace": "a.b.c"}))
    table = make_base_table(lake)
    assert table.name() == ("a", "b", "c", TOPIC)
    assert table.current_snapshot() is not None
    assert table.metadata.properties["frazil.offset.0"] == "0"
    assert lake.catalog.list_tables(("a", "b", "c")) == [("a", "b", "c", TOPIC)]


def test_a_catalog_that_is_not_there_can_be_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    lake = rest_config(tmp_path, f"http://me:hush@127.0.0.1:{port}")
    with pytest.raises(CatalogConnection) as caught:
        lake.load(("frazil", "orders"))
    assert caught.value.retryable
    assert str(port) in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_catalog_that_never_answers_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        started = time.monotonic()
        with pytest.raises(CatalogConnection, match="timed out"):
            rest_config(tmp_path, f"http://127.0.0.1:{door.getsockname()[1]}", seconds=0.5).load(("frazil", "orders"))
    assert time.monotonic() - started < 60


def test_something_that_is_no_catalog(tmp_path: Path, s3_server: S3Server) -> None:
    with pytest.raises(IcebergError):
        rest_config(tmp_path, s3_server.endpoint, seconds=5).load(("frazil", "orders"))


def test_a_file_that_is_no_catalog(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "catalog.db").write_text("This is a letter to my aunt. " * 100)
    with pytest.raises(IcebergError, match=r"catalog\.db is no catalog: file is not a database") as caught:
        Lake(local_config(tmp_path)).load(("frazil", "orders"))
    assert not caught.value.retryable


def test_a_catalog_without_its_driver_is_an_error_of_configuration(tmp_path: Path) -> None:
    lake = Lake(local_config(tmp_path, lake={"properties": {"uri": "thrift://hive:9083", "warehouse": "/w"}}))
    with pytest.raises(ConfigError, match="Hive support not installed"):
        lake.load(("frazil", "orders"))


def test_a_table_whose_files_are_gone(tmp_path: Path) -> None:
    lake = Lake(local_config(tmp_path))
    table = make_base_table(lake)
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(StorageError) as caught:
        lake.load(table.name())
    assert not caught.value.retryable


def test_two_processes_commit_and_none_fails(tmp_path: Path) -> None:
    """A busy SQLite catalog makes others wait; it loses nothing and refuses nobody."""
    lake = Lake(local_config(tmp_path))
    table = make_base_table(lake)
    lake.close()
    processes = [
        subprocess.Popen([sys.executable, "-m", "tests.lake.commit.committer", str(tmp_path), str(COMMITS)])
        for _ in "ab"
    ]
    assert [process.wait(timeout=100) for process in processes] == [0, 0]
    table = lake.load(table.name())
    assert table.properties["count"] == str(2 * COMMITS)
    assert len(table.metadata.snapshots) == 2 * COMMITS + 1


def test_several_processes_open_a_catalog_that_is_not_made_yet(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-m", "tests.lake.commit.committer", str(tmp_path), "1"]) for _ in range(4)
    ]
    assert [process.wait(timeout=100) for process in processes] == [0, 0, 0, 0]
    assert Lake(local_config(tmp_path)).load(("frazil", TOPIC)).properties["count"] == "4"


def test_credentials_that_are_refused_are_not_tried_again(
    tmp_path: Path, nessie: NessieServer, nessie_proxy: Proxy, s3_server: S3Server, namespace: str
) -> None:
    lake = Lake(nessie_config(tmp_path, nessie, s3_server, namespace, endpoint=nessie_proxy.endpoint))
    for status in (401, 403):
        nessie_proxy.on("GET").answer(status)
        with pytest.raises(CatalogRefused, match="credentials"):
            lake.load((namespace, "orders"))
        nessie_proxy.clear()


def test_a_commit_is_sent_once(
    tmp_path: Path, nessie: NessieServer, nessie_proxy: Proxy, s3_server: S3Server, namespace: str
) -> None:
    """Whoever repeats it has to look first whether it was done."""
    lake = Lake(nessie_config(tmp_path, nessie, s3_server, namespace, endpoint=nessie_proxy.endpoint))
    lake.ensure_namespace((namespace,))
    table = make_base_table(lake)
    for fault in ("drop_reply", "drop_request", "answer"):
        before = nessie_proxy.count("POST")
        rule = nessie_proxy.on("POST")
        rule.answer(503) if fault == "answer" else getattr(rule, fault)()
        with pytest.raises(CatalogConnection), calling("Committing"):
            lake.catalog.commit_table(table, (), (SetPropertiesUpdate(updates={fault: "done"}),))
        assert nessie_proxy.count("POST") == before + 1
        nessie_proxy.clear()
    found = lake.load(table.name()).properties
    assert ("drop_reply" in found, "drop_request" in found) == (True, False)


def test_frazil_s_own_errors_and_mistakes_of_ours_pass_through() -> None:
    with pytest.raises(FrazilError, match=r"^own$"), calling("Doing it"):
        raise FrazilError("own")
    with pytest.raises(ZeroDivisionError), calling("Doing it"):
        raise ZeroDivisionError
