"""Tests settings that are given by the names of Danube's Iceberg storage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frazil.config.danube_storage_keys import COUNTERPARTS, FLAT_KEYS, STORE_LOCATION, WITHOUT_COUNTERPART
from frazil.config.load import LoadedConfig, load_config
from frazil.config.setting_tree import find_node
from frazil.config.show import as_yaml
from frazil.errors import ConfigError

DANUBE = """
storage:
  type: iceberg
  iceberg_config:
    catalog:
      type: rest
      uri: "http://localhost:8181"
    object_store:
      type: s3
      bucket: "danube-data"
      region: "us-west-2"
    wal:
      base_path: "/var/lib/danube/wal"
      max_file_size: 67108864  # 64MB
      sync_mode: periodic
    writer:
      batch_size: 1000
      flush_interval_ms: 5000
      max_memory_bytes: 134217728  # 128MB
    reader:
      poll_interval_ms: 1500
      max_concurrent_reads: 7
      prefetch_size: 3
"""


def load(folder: Path, text: str) -> LoadedConfig:
    path = folder / "frazil.yaml"
    path.write_text(text)
    return load_config(path, environ={})


def test_all_of_it_is_understood(tmp_path: Path) -> None:
    loaded = load(tmp_path, DANUBE)
    config = loaded.config
    assert config.lake.properties == {"type": "rest", "uri": "http://localhost:8181"}
    assert config.store.url == "s3://danube-data"
    assert config.store.options == {"region": "us-west-2"}
    assert config.data_dir == Path("/var/lib/danube/wal")
    assert (config.log.max_file_size_mb, config.log.sync) == (64, "periodic")
    assert config.pipeline.flush_batch_size == 1000
    assert config.pipeline.flush_interval_seconds == 5.0
    assert (config.pipeline.max_size_mb, config.pipeline.poll_interval_ms) == (128, 1500)
    assert (config.messages.max_concurrent_reads, config.messages.prefetch_size) == (7, 3)
    assert loaded.origins["log", "sync"].startswith("storage.iceberg_config.wal.sync_mode, ")


FLAT = """
storage:
  type: iceberg
  iceberg_config:
    catalog_type: rest
    catalog_uri: "http://localhost:8181"
    warehouse_path: "s3://danube-data/tables"
    object_store_type: s3
    region: "us-west-2"
    endpoint: "http://localhost:9000"
    path_style: true
    allow_anonymous: false
    wal_path: "/var/lib/danube/wal"
    wal_segment_size: 67108865
    wal_sync_mode: never
    writer_batch_size: 1000
    writer_flush_interval_ms: 250
    writer_max_memory_bytes: 134217728
    reader_poll_interval_ms: 1500
    reader_prefetch_batches: 3
"""


def test_the_flat_form_is_understood(tmp_path: Path) -> None:
    loaded = load(tmp_path, FLAT)
    config = loaded.config
    assert config.lake.properties == {
        "type": "rest",
        "uri": "http://localhost:8181",
        "warehouse": "s3://danube-data/tables",
    }
    assert config.store.url == "s3://danube-data"
    assert config.store.options == {
        "region": "us-west-2",
        "endpoint": "http://localhost:9000",
        "virtual_hosted_style_request": "false",
        "skip_signature": "false",
    }
    assert config.data_dir == Path("/var/lib/danube/wal")
    assert (config.log.max_file_size_mb, config.log.sync) == (65, "none")
    assert (config.pipeline.flush_batch_size, config.pipeline.flush_interval_seconds) == (1000, 0.25)
    assert (config.pipeline.max_size_mb, config.pipeline.poll_interval_ms) == (128, 1500)
    assert config.messages.prefetch_size == 3


def test_a_catalog_says_all_it_can(tmp_path: Path) -> None:
    catalog = "{type: glue, region: eu-1, profile: me, database: shop, properties: {glue.id: 7, token: hush}}"
    config = load(tmp_path, f"storage: {{iceberg_config: {{catalog: {catalog}, warehouse: s3://b/w}}}}").config
    assert config.lake.properties == {
        "type": "glue",
        "glue.region": "eu-1",
        "glue.profile-name": "me",
        "glue.id": "7",
        "token": "hush",
        "warehouse": "s3://b/w",
    }
    assert config.lake.namespace == "shop"


def test_what_it_means_is_shown_with_where_it_came_from(tmp_path: Path) -> None:
    shown = as_yaml(load(tmp_path, DANUBE.replace("uri:", "token: hush\n      uri:")))
    assert re.search(
        r"(?m)^  flush_batch_size: 1000  # storage\.iceberg_config\.writer\.batch_size, .*, line \d+$", shown
    )
    assert re.search(r"(?m)^  url: s3://danube-data  # storage\.iceberg_config\.object_store\.bucket, .*$", shown)
    assert "hush" not in shown
    assert "\nstorage" not in shown
    config = load(tmp_path, shown).config
    assert config.pipeline.flush_batch_size == 1000, "it can be loaded again"


def test_the_environment_wins(tmp_path: Path) -> None:
    path = tmp_path / "frazil.yaml"
    path.write_text(DANUBE)
    assert load_config(path, environ={"FRAZIL__LOG__SYNC": "always"}).config.log.sync == "always"


def test_every_key_that_it_stands_for_exists() -> None:
    for path, meaning in COUNTERPARTS.items():
        key = tuple(part.removesuffix("_file") for part in meaning.key)
        assert find_node(key) is not None, path
    assert {*FLAT_KEYS.values()} <= {
        *COUNTERPARTS,
        *WITHOUT_COUNTERPART,
        *(("object_store", name) for name in STORE_LOCATION),
    }


@pytest.mark.parametrize(
    ("store", "url"),
    [
        ("{type: local, path: /srv/store}", "/srv/store"),
        ("{type: gcs, bucket: b, prefix: /a/b/}", "gs://b/a/b"),
        ("{type: minio, bucket: b, endpoint: 'http://localhost:9000'}", "s3://b"),
    ],
)
def test_stores(tmp_path: Path, store: str, url: str) -> None:
    text = f"storage: {{type: iceberg, iceberg_config: {{object_store: {store}}}}}"
    assert load(tmp_path, text).config.store.url == url


def test_the_word_of_danube_for_no_sync(tmp_path: Path) -> None:
    assert load(tmp_path, "storage: {iceberg_config: {wal: {sync_mode: never}}}").config.log.sync == "none"


def test_secrets_come_from_files_here_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush\n")
    store = f"{{type: s3, bucket: b, secret_access_key_file: {tmp_path / 'key'}}}"
    secret = load(tmp_path, f"storage: {{iceberg_config: {{object_store: {store}}}}}").config.store.secret_access_key
    assert secret is not None
    assert secret.get_secret_value() == "hush"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("storage: [1]", "storage: must have the keys type and iceberg_config"),
        ("storage: {kind: iceberg}", "storage: must have the keys type and iceberg_config"),
        ("storage: {type: rocksdb}", r"storage\.type: 'rocksdb' is not allowed; allowed: iceberg \(.*line 1\)"),
        ("storage: {iceberg_config: 3}", r"storage\.iceberg_config: must be a mapping"),
        (
            "storage: {iceberg_config: {wall: {}}}",
            r"iceberg_config\.wall: unknown key; known are catalog, object_store",
        ),
        ("storage: {iceberg_config: {wal: 3}}", r"iceberg_config\.wal: must be a mapping, not '3'"),
        (
            "storage: {iceberg_config: {wal: {sync: x}}}",
            r"wal\.sync: unknown key; known are base_path, max_file_size",
        ),
        ("storage: {iceberg_config: {wal: {max_file_size: big}}}", r"max_file_size: 'big' is not allowed; .*whole"),
        ("storage: {iceberg_config: {wal: {sync_mode: [x]}}}", "sync_mode: a list is not allowed"),
        (
            "storage: {iceberg_config: {wal: {sync_mode: often}}}",
            r"log\.sync: 'often' is not allowed.*wal\.sync_mode",
        ),
        ("storage: {iceberg_config: {object_store: {type: tape}}}", "'tape' is not allowed; allowed: local, s3"),
        ("storage: {iceberg_config: {object_store: {type: s3}}}", "needs its bucket"),
        ("storage: {iceberg_config: {object_store: {type: local}}}", "needs its path"),
        ("storage: {iceberg_config: {object_store: {type: memory}}}", "'memory' is not allowed; allowed: local, s3"),
        ("storage: {iceberg_config: {object_store: {bucket: b}}}", r"object_store: needs its type; allowed: local"),
        ("storage: {iceberg_config: {object_store: {type: [s3]}}}", r"object_store\.type: a list is not allowed"),
        (
            "storage: {iceberg_config: {object_store: {type: s3, bucket: b, path: p}}}",
            "path: means nothing for a store",
        ),
        (
            "storage: {iceberg_config: {object_store: {type: gcs}, warehouse: 's3://b/w'}}",
            "object_store: a store of type gcs needs its bucket, or a warehouse in one",
        ),
        (
            "storage: {iceberg_config: {object_store: {type: s3, bucket: b, profile: me}}}",
            r"object_store\.profile: has no counterpart; give access_key_id .*line 1\)",
        ),
        (
            "storage: {iceberg_config: {object_store: {type: s3, bucket: b, properties: {a: b}}}}",
            r"object_store\.properties: has no counterpart; give them as store\.options",
        ),
        (
            "storage: {iceberg_config: {catalog: {type: memory}}}",
            "type: 'memory' is not allowed; allowed: rest, glue",
        ),
        ("storage: {iceberg_config: {catalog: {url: x}}}", r"catalog\.url: unknown key; known are type, uri, token"),
        ("storage: {iceberg_config: {catalog: {properties: x}}}", r"catalog\.properties: must be a mapping, not 'x'"),
        ("storage: {iceberg_config: {catalog: {uri: }}}", r"catalog\.uri: nothing is not allowed"),
        ("storage: {iceberg_config: {path_style: maybe}}", "path_style: 'maybe' is not allowed; allowed: true or"),
        (
            "storage: {iceberg_config: {wal_path: a, wal: {base_path: b}}}",
            r"wal\.base_path: storage\.iceberg_config\.wal_path means the same and is given too",
        ),
        (
            "storage: {iceberg_config: {catalog: {uri: a, properties: {uri: b}}}}",
            r"properties\.uri: lake\.properties\.uri means the same and is given too",
        ),
        ("lake: 3\nstorage: {iceberg_config: {warehouse: w}}", r"lake: '3' is not a section"),
        (
            "log: {sync: none}\nstorage: {iceberg_config: {wal: {sync_mode: never}}}",
            r"sync_mode: log\.sync means the same and is given too; keep one of them \(.*line 2\)",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, text)
