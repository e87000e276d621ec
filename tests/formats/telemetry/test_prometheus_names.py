"""OpenTelemetry's names are translated as Prometheus does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.telemetry.prometheus_names import label_name, metric_name


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("http.server.request.duration", "s", "http_server_request_duration_seconds"),
        ("system.filesystem.usage", "By", "system_filesystem_usage_bytes"),
        ("(lambda).function.executions(#)", "", "lambda_function_executions"),
        ("a__b", "", "a_b"),
        ("_a_", "", "a"),
        ("job:requests:rate5m", "", "job:requests:rate5m"),
        ("redis 12 commands", "", "redis_12_commands"),
        ("5m.load", "", "_5m_load"),
        ("température", "Cel", "temp_rature_celsius"),
        ("time_seconds", "s", "time_seconds"),
        ("seconds.spent", "s", "seconds_spent"),
        ("dropped", "{packet}", "dropped"),
        ("dropped", "packets", "dropped_packets"),
        ("rate", "By/s", "rate_bytes_per_second"),
        ("rate", "1/s", "rate_per_second"),
        ("rate", "{request}/s", "rate_per_second"),
        ("rate", "By/{request}", "rate_bytes"),
        ("rate", " By / min ", "rate_bytes_per_min"),
        ("speed", "m/m", "speed_meters_per_minute"),
        ("rate", "/", "rate"),
        ("area", "m2", "area_m2"),
        ("x", "a__b", "x_a_b"),
        ("x", "unit@with#special/chars", "x_unit_with_special_per_chars"),
        ("x", "[in_i]/s", "x_in_i_per_second"),
        ("used", "%", "used_percent"),
        ("used", "1", "used"),
        ("size", "TiBy", "size_tebibytes"),
        ("ようこそ", "", "ようこそ"),
        ("ようこそ", "s", "ようこそ"),
        ("", "", ""),
    ],
)
def test_metrics(name: str, unit: str, expected: str) -> None:
    assert metric_name(name, unit, False, False) == expected


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("requests", "", "requests_total"),
        ("requests.total", "", "requests_total"),
        ("total.requests", "", "requests_total"),
        ("system.io", "By", "system_io_bytes_total"),
        ("requests", "1", "requests_total"),
        ("rate", "1/s", "rate_per_second_total"),
    ],
)
def test_counters(name: str, unit: str, expected: str) -> None:
    assert metric_name(name, unit, True, False) == expected


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("memory.utilization", "1", "memory_utilization_ratio"),
        ("hit.ratio", "1", "hit_ratio"),
        ("ratio.of.hits", "1", "of_hits_ratio"),
        ("hit", "1/s", "hit_per_second"),
        ("requests.total", "", "requests_total"),
    ],
)
def test_gauges(name: str, unit: str, expected: str) -> None:
    assert metric_name(name, unit, False, True) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("http.method", "http_method"),
        ("plain", "plain"),
        ("label:with:colons", "label_with_colons"),
        ("label!with&special$chars)", "label_with_special_chars_"),
        ("a..b", "a__b"),
        ("字符x", "__x"),
        ("1st", "key_1st"),
        ("_hidden", "key_hidden"),
        (".hidden", "key_hidden"),
        ("__reserved", "__reserved"),
        ("", "key_"),
    ],
)
def test_labels(key: str, expected: str) -> None:
    assert label_name(key) == expected


@given(name=st.text(max_size=12), unit=st.text(max_size=6), counter=st.booleans(), gauge=st.booleans())
def test_names_need_no_quotes(name: str, unit: str, counter: bool, gauge: bool) -> None:
    found = metric_name(name, unit, counter, gauge)
    assert found == name or re.fullmatch("[a-zA-Z_:][a-zA-Z0-9_:]*", found)
    assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", label_name(name))
