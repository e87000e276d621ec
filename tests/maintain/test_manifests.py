"""Tests that manifests are rewritten, and only if that is worth it."""

from __future__ import annotations

from pathlib import Path

from frazil.config.sections.maintenance import ManifestsConfig
from frazil.lake.commit.offsets import check_not_rolled_back
from frazil.maintain.manifests import ManifestRewrite
from frazil.maintain.operations import run_operation
from tests.lake.commit.commits import NAME, make_lake, make_table, read_rows, span
from tests.maintain.support import EVENTS, SparkFor, maintenance_context, move


def test_many_become_few_once(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    operation = ManifestRewrite(ManifestsConfig(min_input_manifests=5))
    planned = run_operation(maintenance_context(lake), operation, EVENTS, dry_run=True)
    assert (planned.outcome, planned.work.before.manifests, planned.work.after.manifests) == ("would", 6, 1)
    report = run_operation(maintenance_context(lake, spark=spark_for(lake.config)), operation, EVENTS)
    assert (report.outcome, report.work.before.manifests, report.work.after.manifests) == ("done", 6, 1)
    assert run_operation(maintenance_context(lake), operation, EVENTS).outcome == "nothing"
    check_not_rolled_back(lake.load(NAME))
    move(lake, 1)
    assert read_rows(lake) == span(0, 0, 70)


def test_few_are_left_alone(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    assert run_operation(maintenance_context(lake), ManifestRewrite(ManifestsConfig()), EVENTS).outcome == "nothing"
