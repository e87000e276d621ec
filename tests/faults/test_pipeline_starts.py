"""Tests what a pipeline does and logs if something it needs is missing, refuses it, or has no room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frazil.config.model import Config
from tests.faults.loader import Loader, check_everything, moved
from tests.faults.pipeline_fleet import MOVED_SECONDS, QUICK
from tests.lake.support import nessie_config
from tests.pipeline.pipeline_process import PipelineProcess
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer, S3Server
from tests.servers.spark import SHORT_LIVED

TOPICS = ("orders",)


@pytest.fixture
def lake_at(
    tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str
) -> Callable[[str | None], Config]:
    """Returns a function that makes the settings of a lake whose catalog is at a given address."""

    def at(endpoint: str | None) -> Config:
        pipeline = {**QUICK, "spark": SHORT_LIVED}
        return nessie_config(
            tmp_path, nessie, s3_server, namespace, endpoint=endpoint, timeout_seconds=5.0, pipeline=pipeline
        )

    return at


def test_a_catalog_that_is_not_there_is_waited_for(lake_at: Callable[..., Config], nessie_proxy: Proxy) -> None:
    nessie_proxy.down()
    with PipelineProcess(lake_at(nessie_proxy.endpoint)) as pipeline:
        pipeline.wait_for(lambda: pipeline.health.status == "unhealthy", "told")
        assert nessie_proxy.endpoint in pipeline.health.reason
        assert "Check that the catalog runs" in pipeline.health.reason
        pipeline.wait_for(lambda: "frazil_breaker_opened_total" in pipeline.metrics, "counted")
        nessie_proxy.up()
        pipeline.wait_for(lambda: pipeline.health.status != "unhealthy", "gone on when it came")
        assert pipeline.said.count("the catalog cannot be reached") == 1
        assert "Traceback" not in pipeline.said


@pytest.mark.soak
def test_a_catalog_that_goes_while_all_is_well(
    lake_at: Callable[..., Config], nessie_proxy: Proxy, seed: int
) -> None:
    past = lake_at(None)
    with Loader(past, seed, TOPICS, pause=0.3) as loader, PipelineProcess(lake_at(nessie_proxy.endpoint)) as pipeline:
        loader.start()
        pipeline.wait_for(lambda: "frazil_rows_flushed_total{" in pipeline.metrics, "moving", MOVED_SECONDS)
        assert pipeline.health.status == "healthy"
        nessie_proxy.down()
        pipeline.wait_for(lambda: pipeline.component("catalog").status == "degraded", "told")
        assert "it kept failing" in pipeline.component("catalog").reason
        pipeline.wait_for(lambda: 'frazil_breaker_opened_total{dependency="catalog"} ' in pipeline.metrics, "counted")
        nessie_proxy.up()
        loader.stop()
        pipeline.wait_for(lambda: moved(past, loader), "moved everything", MOVED_SECONDS)
        pipeline.wait_for(lambda: pipeline.component("catalog").status == "healthy", "well again")
        pipeline.wait_for(lambda: pipeline.health.status == "healthy", "healthy again")
        pipeline.wait_for(lambda: 'frazil_breaker_state{dependency="catalog"} 0.0' in pipeline.metrics, "closed")
        assert pipeline.stop() == 0
        assert "Traceback" not in pipeline.said
        check_everything(past, loader)


@pytest.mark.parametrize("status", [401, pytest.param(403, marks=pytest.mark.soak)])
def test_a_catalog_that_refuses_is_an_end(lake_at: Callable[..., Config], nessie_proxy: Proxy, status: int) -> None:
    nessie_proxy.on().answer(status)
    with PipelineProcess(lake_at(nessie_proxy.endpoint)) as pipeline:
        assert pipeline.process.wait(120) == 3
        assert pipeline.health.status == "unhealthy"
        assert "Check the catalog's credentials and permissions" in pipeline.health.reason
        assert pipeline.said == ""


@pytest.mark.soak
def test_a_store_that_refuses_is_told_once(tmp_path: Path, s3_server: S3Server, s3_prefix: str, seed: int) -> None:
    right = Config(data_dir=tmp_path / "data", store=s3_server.config(s3_prefix))
    with Loader(right, seed, TOPICS) as loader:
        loader.fill(3)
    wrong = right.model_copy(update={"store": right.store.model_copy(update=_with_wrong_secret(right))})
    with PipelineProcess(wrong) as pipeline:
        pipeline.wait_for(lambda: pipeline.health.status == "unhealthy", "told", MOVED_SECONDS)
        assert "frazil" in pipeline.health.reason
        pipeline.wait_for(lambda: pipeline.metrics.count("frazil_breaker_state") > 0, "counted")
        assert pipeline.said.count("cannot look for work") == 1
        assert "Traceback" not in pipeline.said


def _with_wrong_secret(config: Config) -> dict[str, Any]:
    assert config.store.secret_access_key is not None
    return {"secret_access_key": type(config.store.secret_access_key)("wrong")}


@pytest.mark.soak
@pytest.mark.parametrize("part", ["warehouse", "txlog"])
def test_a_disk_that_is_full(tmp_path: Path, part: str, seed: int) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.faults.full_warehouse"]
    done = subprocess.run([*command, str(tmp_path), part, str(seed)], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
