"""Tests what is answered about labels, streams, volumes, fields and patterns."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import QueryError
from frazil.query.logql.api import detected_fields, labels, status, volume
from frazil.query.logql.api.detected_labels import detected_labels
from frazil.query.logql.api.patterns import patterns
from tests.query.logql.api.support import SECOND, START, Lines

SHOP = {"app": "shop", "env": "dev", "service_name": "shop"}
WEB = {"app": "web", "service_name": "web"}


def test_labels_and_values(lines: Lines) -> None:
    assert lines.data(labels.labels) == ["app", "env", "service_name"]
    assert lines.data(labels.labels, query='{app="web"}') == ["app", "service_name"]
    assert lines.data(labels.values, "app") == ["shop", "web"]
    assert lines.data(labels.values, "app", tenants=("team-b",)) == ["other"]
    assert lines.ask(labels.values, "nothing") == {"status": "success"}


def test_a_label_is_found_at_the_times_of_its_lines(lines: Lines) -> None:
    assert lines.ask(labels.labels, start=START - 3600 * SECOND, end=START) == {"status": "success"}
    assert lines.data(labels.values, "app", start=START + 95 * SECOND) == ["web"]


def test_series(lines: Lines) -> None:
    assert lines.data(labels.series) == [SHOP, WEB]
    assert lines.data(labels.series, match=['{app="web"}', '{env="prod"}']) == [WEB]
    assert lines.data(labels.series, match='{app="shop"}') == [SHOP]
    assert lines.data(labels.series, match='{app="nope"}') == []
    with pytest.raises(QueryError, match="only label matchers are supported"):
        lines.data(labels.series, match='{app="shop"} |= "x"')


def test_what_was_sealed_is_remembered(lines: Lines) -> None:
    lines.data(labels.labels)
    kept = [key for key in lines.cache.kept if isinstance(key, tuple) and key[0] == "loki streams"]
    assert kept


def test_volumes(lines: Lines) -> None:
    sizes = {app: lines.ask(volume.stats, query=f'{{app="{app}"}}') for app in ("shop", "web")}
    assert sizes["shop"] == {"streams": 1, "chunks": 1, "bytes": 6 * 18 + 2, "entries": 6}
    found = lines.data(volume.volume, query='{app=~".+"}')["result"]
    assert [(each["metric"], each["value"][1]) for each in found] == [
        ({"app": "shop"}, str(sizes["shop"]["bytes"])),
        ({"app": "web"}, str(sizes["web"]["bytes"])),
    ]
    by_label = lines.data(volume.volume, query="{}", aggregateBy="labels")["result"]
    assert [each["metric"] for each in by_label] == [{"app": ""}, {"service_name": ""}, {"env": ""}]
    wide = lines.data(volume.volume, query="{}", targetLabels="env", limit=1)["result"]
    assert [each["metric"] for each in wide] == [{"env": "dev"}]
    with pytest.raises(QueryError, match="invalid aggregation option"):
        lines.data(volume.volume, query="{}", aggregateBy="x")


def test_volumes_at_each_step(lines: Lines) -> None:
    data = lines.data(volume.volume_range, query='{app=~".+"}', step=60, start=START, end=START + 95 * SECOND)
    minute = START // SECOND
    assert [(each["metric"], each["values"]) for each in data["result"]] == [
        ({"app": "shop"}, [[minute + 59.999, "110"]]),
        ({"app": "web"}, [[minute + 95, "52"]]),
    ]


def test_detected_labels(lines: Lines) -> None:
    found = lines.ask(detected_labels)["detectedLabels"]
    assert found == [
        {"label": "app", "cardinality": 2},
        {"label": "env", "cardinality": 1},
        {"label": "service_name", "cardinality": 2},
    ]
    assert lines.ask(detected_labels, query='{app="nope"}') == {}


def test_detected_fields(lines: Lines) -> None:
    found = lines.ask(detected_fields.detected_fields, query='{app=~".+"}')["fields"]
    plain = {each["label"]: (each["type"], each["cardinality"], each["parsers"]) for each in found}
    assert plain == {
        "detected_level": ("string", 3, None),
        "level": ("string", 2, ["logfmt"]),
        "ok": ("boolean", 1, ["json"]),
        "order": ("int", 6, ["logfmt"]),
        "path": ("string", 2, ["json"]),
        "size_sent": ("int", 1, ["json"]),
        "took": ("duration", 1, ["json"]),
        "user": ("string", 2, None),
    }
    assert next(each["jsonPath"] for each in found if each["label"] == "size_sent") == ["size", "sent"]
    values = lines.ask(detected_fields.values, "path", query='{app="web"}')
    assert values == {"values": ["/a", "/b"], "limit": 1000}
    assert lines.ask(detected_fields.values, "nope", query='{app="web"}') == {}


def test_patterns(lines: Lines) -> None:
    found = lines.data(patterns, query='{app="shop"}', step=60)
    minute = START // SECOND
    assert found == [
        {"pattern": "level=info order=<_>", "level": "info", "samples": [[minute, 4]]},
        {"pattern": "level=error order=<_>", "level": "error", "samples": [[minute, 2]]},
    ]


def test_format_query(lines: Lines) -> None:
    assert lines.data(status.format_query, query='sum(rate({a="b"}[5m])) by (c)') == 'sum by (c)(rate({a="b"}[5m]))'
    reply = lines.reply(status.format_query, query="{")
    assert reply.status == 400
    assert b'"status":"invalid-query"' in b"".join(reply.body)


@pytest.mark.parametrize("answer", [status.build_info, status.drilldown_limits, status.no_rules, status.no_alerts])
def test_what_clients_ask_about_the_server(lines: Lines, answer: Any) -> None:
    assert lines.ask(answer)
    assert lines.reply(status.no_rule_groups).status == 404
    assert b"max_entries: 5000" in b"".join(lines.reply(status.config).body)
