"""Stored rows have the labels that Loki would give them, and what is pushed down to the scan loses none."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from frazil.config.sections.loki import LokiConfig
from frazil.query.logql.engine import Engine
from frazil.query.logql.log_results import Entry
from frazil.query.logql.source.label_rules import LabelRules
from frazil.query.logql.source.log_rows import LogRows
from frazil.scan.interface import ScanRequest
from tests.formats.loki.support import message, rows_of
from tests.query.logql.source.support import NOW, otlp_rows, placed
from tests.query.logql.table_scanner import TableScan, TableScanner

SECOND = 1_000_000_000


def entries(table: pa.Table, query: str, rules: LabelRules | None = None, tenant: str = "default") -> list[Entry]:
    source = LogRows(TableScanner(table), (tenant,), rules or LabelRules())
    return Engine(source).logs(query, 0, 2 * NOW, 1000, newest_first=False).entries


def otlp_request(resource: dict[str, str], body: str = "hello") -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    given = request.resource_logs.add()
    for key, value in resource.items():
        given.resource.attributes.add(key=key).value.string_value = value
    scope = given.scope_logs.add()
    scope.scope.name, scope.scope.version = "lib", "1.2"
    record = scope.log_records.add(time_unix_nano=NOW, observed_time_unix_nano=NOW + 1, severity_number=17)
    record.body.string_value = body
    record.trace_id = b"\xab" * 16
    record.severity_text = "ERROR"
    record.attributes.add(key="http.route").value.string_value = "/x"
    record.attributes.add(key="1st").value.int_value = 5
    user = record.attributes.add(key="user").value.kvlist_value
    user.values.add(key="name").value.string_value = "eve"
    user.values.add(key="tags").value.array_value.values.add().int_value = 3
    return request


def test_a_record_of_otlp_has_few_labels_and_much_metadata() -> None:
    table = otlp_rows(otlp_request({"service.name": "shop", "k8s.pod.name": "p1", "host.name": "h"}))
    (entry,) = entries(table, '{service_name="shop", k8s_pod_name=~"p."} |= "hell"')
    assert dict(entry.labels.stream) == {"k8s_pod_name": "p1", "service_name": "shop"}
    assert dict(entry.labels.metadata) == {
        "detected_level": "error",
        "host_name": "h",
        "http_route": "/x",
        "key_1st": "5",
        "observed_timestamp": str(NOW + 1),
        "scope_name": "lib",
        "scope_version": "1.2",
        "severity_number": "17",
        "severity_text": "ERROR",
        "trace_id": "ab" * 16,
        "user_name": "eve",
        "user_tags": "[3]",
    }
    assert entry.labels.parsed == ()
    assert (entry.time_ns, entry.line) == (NOW, "hello")


@pytest.mark.parametrize(
    ("resource", "service"),
    [({}, "unknown_service"), ({"container.name": "c"}, "c"), ({"host.name": "h"}, "unknown_service")],
)
def test_services_without_a_name(resource: dict[str, str], service: str) -> None:
    table = otlp_rows(otlp_request(resource), otlp_request({"service.name": "other"}))
    (entry,) = entries(table, f'{{service_name="{service}"}}')
    assert dict(entry.labels.stream)["service_name"] == service
    source = LogRows(TableScanner(table), ("default",))
    found = Engine(source).range('sum by (service_name)(count_over_time({service_name=~".+"}[1h]))', NOW, NOW, 1)
    assert sorted(found.matrix.series) == sorted([(("service_name", "other"),), (("service_name", service),)])


def test_index_attributes_are_a_setting() -> None:
    table = otlp_rows(otlp_request({"service.name": "shop", "host.name": "h"}))
    own = {"index_attributes": ["host.name"], "discover_services": False, "discover_levels": False}
    config = LokiConfig.model_validate({"tenants": {"default": own}})
    assert LabelRules.of(config, "other") == LabelRules()
    rules = LabelRules.of(config, "default")
    (entry,) = entries(table, '{host_name="h"}', rules)
    assert entry.labels.stream == (("host_name", "h"),)
    assert dict(entry.labels.metadata)["service_name"] == "shop"
    assert "detected_level" not in dict(entry.labels.metadata)


def test_a_service_may_be_named_by_another_attribute() -> None:
    table = otlp_rows(
        otlp_request({"service.name": "shop", "container.name": "c"}), otlp_request({"service.name": ""})
    )
    rules = LabelRules(index_attributes=("container.name",))
    (entry,) = entries(table, '{service_name="c"}', rules)
    assert dict(entry.labels.stream) == {"container_name": "c", "service_name": "c"}
    assert len(entries(table, '{service_name="unknown_service"}', rules)) == 1
    assert len(entries(table, '{service_name="unknown_service"}')) == 1


def test_pushed_streams_have_their_labels() -> None:
    named = ({"app": "shop", "b": "2"}, [(SECOND, "x level=warn", {"k.y": "v", "empty": ""})])
    body = message(named, ({}, [(2, "y", {})]))
    table = placed(rows_of(body).batch)
    first, second = entries(table, '{service_name=~".+"}', tenant="tenant-0")[::-1]
    assert dict(first.labels.stream) == {"app": "shop", "b": "2", "service_name": "shop"}
    assert dict(first.labels.metadata) == {"k_y": "v", "empty": "", "detected_level": "warn"}
    assert dict(second.labels.stream) == {"service_name": "unknown_service"}


def test_a_tenant_sees_its_own_rows_only() -> None:
    table = placed(rows_of(message(({"app": "a"}, [(1, "x", {})]))).batch)
    assert entries(table, '{app="a"}', tenant="other") == []


_LINES = st.sampled_from(["", "error x", "warn 10.0.0.1", "a b c", "ERROR"])
_APPS = st.sampled_from(["", "a", "b", "ab"])
_MATCHER = st.sampled_from(
    ['app="a"', 'app=~"a.*"', 'app=~"a|"', 'app!="a"', 'app!~"b"', 'k8s_pod_name="a"', 'app=""']
)
_FILTER = st.sampled_from(
    ['|= "error"', '!= "error"', '|= "error" or "warn"', '!= "error" or "warn"', '|~ "(?i)err"', '!~ "^$"', '|~ ".*"',
     '|= ip("10.0.0.0/8")', '!= ip("10.0.0.0/8")', '|= "warn" or ip("10.0.0.0/8")', '|> "<_> b <_>"',
     '!> "<_> b <_>"',
     '|= ""', '!= ""', "| json", ""]
)  # fmt: skip


@given(
    st.lists(st.tuples(_APPS, _APPS, _LINES), min_size=1, max_size=6),
    st.lists(_MATCHER, max_size=2),
    st.lists(_FILTER, max_size=2),
)
def test_what_is_pushed_down_loses_nothing(
    stored: list[tuple[str, str, str]], matchers: list[str], filters: list[str]
) -> None:
    table = pa.concat_tables(
        [
            placed(rows_of(message(*(({"app": app}, [(NOW, line, {})]) for app, _, line in stored))).batch),
            otlp_rows(
                *(otlp_request({"k8s.pod.name": pod} if pod else {}, line) for _, pod, line in stored),
                tenant="tenant-0",
            ),
        ]
    )
    query = " ".join(["{" + ", ".join(['service_name=~".+"', *matchers]) + "}", *filters])
    assert shown(entries(table, query, tenant="tenant-0")) == shown(entries_without_pushdown(table, query))


class Everything(TableScanner):
    """Ignores predicates."""

    def scan(self, request: ScanRequest) -> TableScan:
        return super().scan(replace(request, where=None))


def entries_without_pushdown(table: pa.Table, query: str) -> list[Entry]:
    return Engine(LogRows(Everything(table), ("tenant-0",))).logs(query, 0, 2 * NOW, 1000, newest_first=False).entries


def shown(found: list[Entry]) -> list[str]:
    return sorted(json.dumps([entry.line, entry.labels.merged()]) for entry in found)


def test_columns_may_come_as_dictionaries() -> None:
    table = otlp_rows(otlp_request({"service.name": "shop"}), otlp_request({"container.name": "c"}))
    maps = pa.map_(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.string()))
    encoded = table
    for name in ("service_name", "body", "ingest_protocol", "detected_level", "severity_text", "scope_name"):
        encoded = encoded.set_column(encoded.schema.get_field_index(name), name, encoded[name].dictionary_encode())
    for name in ("resource_attributes", "attributes"):
        column = encoded[name].combine_chunks()
        keys, items = column.keys.dictionary_encode(), column.items.dictionary_encode()
        found = pa.MapArray.from_arrays(column.offsets, keys, items, maps)
        encoded = encoded.set_column(encoded.schema.get_field_index(name), name, found)
    query = '{service_name=~"shop|c"} |= "hello" | detected_level="error"'
    assert len(entries(table, query)) == 2
    assert shown(entries(encoded, query)) == shown(entries(table, query))
