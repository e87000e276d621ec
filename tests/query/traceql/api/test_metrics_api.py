"""Series of samples, and one number for each series."""

from __future__ import annotations

import pytest

from frazil.query.traceql.api.parameters import default_step
from tests.query.traceql.api.support import END, START, Api
from tests.query.traceql.span_texts import BASE, read_spans

SECOND = BASE // 10**9
SPANS = """
1 a - name=GET service=web took=20 start=1000
1 b a name=query service=db start=2000 status=error
2 a - name=GET service=web took=20 start=14000
"""


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(read_spans(SPANS))


def test_samples_stand_at_the_ends_of_their_steps(api: Api) -> None:
    answer = api.json(
        "/api/metrics/query_range",
        q="{} | count_over_time() by(name, status)",
        start=SECOND,
        end=SECOND + 15,
        step="10s",
    )
    first = SECOND // 10 * 10
    assert [each["labels"] for each in answer["series"]] == [
        [
            {"key": "name", "value": {"stringValue": "GET"}},
            {"key": "status", "value": {"stringValue": "unset"}},
        ],
        [
            {"key": "name", "value": {"stringValue": "query"}},
            {"key": "status", "value": {"stringValue": "error"}},
        ],
    ]
    assert answer["series"][1]["samples"] == [
        {"timestampMs": str(first * 1000)},
        {"timestampMs": str((first + 10) * 1000), "value": 1},
        {"timestampMs": str((first + 20) * 1000)},
    ]
    _, exemplar = answer["series"][0]["exemplars"]
    assert exemplar["labels"][-1] == {"key": "trace:id", "value": {"stringValue": "2"}}


def test_exemplars_can_be_left_out(api: Api) -> None:
    (series,) = api.search("/api/metrics/query_range", q="{} | rate() with(exemplars=false)")["series"]
    assert "exemplars" not in series
    (series,) = api.search("/api/metrics/query_range", q="{} | rate()", exemplars=1)["series"]
    assert len(series["exemplars"]) == 1


def test_one_number_for_each_series(api: Api) -> None:
    assert api.search("/api/metrics/query", q="{} | count_over_time()")["series"] == [
        {"labels": [{"key": "__name__", "value": {"stringValue": "count_over_time"}}], "value": 3}
    ]
    assert api.search("/api/metrics/query", q="{ status = ok } | rate() by(name)")["series"] == []


def test_too_many_series_are_a_partial_answer(api: Api) -> None:
    answer = api.search("/api/metrics/query_range", q="{} | rate() by(name)", maxSeries=1)
    assert len(answer["series"]) == 1
    assert answer["status"] == "PARTIAL"
    assert answer["message"].startswith("Response exceeds maximum series limit of 1")


@pytest.mark.parametrize("path", ["/api/metrics/query_range", "/api/metrics/query"])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"q": "{}"}, "not a metrics query"),
        ({"q": "{} | rate("}, "parse error at line 1, col 11: syntax error: unexpected $end, expecting )"),
        ({"start": "x"}, "could not parse 'start' parameter: strconv.ParseInt: parsing \"x\": invalid syntax"),
        ({"start": END, "end": START}, "end must be greater than start"),
        ({"start": 1, "end": 100_000}, "metrics query time range exceeds the maximum allowed duration of 24h0m0s"),
    ],
)
def test_what_is_refused(api: Api, path: str, parameters: dict[str, object], message: str) -> None:
    status, text = api.error(path, **{"q": "{} | rate()", "start": START, "end": END} | parameters)
    assert status == 400
    assert text.endswith(message)


def test_semantic_errors_say_that_the_query_is_compiled(api: Api) -> None:
    status, text = api.error("/api/metrics/query_range", q="{ status > ok } | rate()", start=START, end=END)
    assert (status, text) == (400, "compiling query: illegal operation for the given types: status > ok")


def test_steps_that_are_too_small(api: Api) -> None:
    status, text = api.error("/api/metrics/query_range", q="{} | rate()", start=1, end=80061, step="1s")
    assert (status, text) == (400, "step of 1s is too small, minimum step for given range is 8.006s")
    status, text = api.error("/api/metrics/query_range", q="{} | rate()", start=START, end=END, step="abc")
    assert text == 'rpc error: code = Code(400) desc = cannot parse "abc" to a valid duration'


def test_numbers_that_are_far_too_large(api: Api) -> None:
    huge = "9" * 400
    found = api.json("/api/metrics/query_range", q="{} | rate()", start=START, end=END, step=huge)
    assert len(found["series"]) == 1
    status, _ = api.error("/api/metrics/query_range", q="{} | rate()", start=START, end=f"{huge}.5", step="1s")
    assert status == 400


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(1800, 5), (3600, 15), (10, 0.05), (59, 0.2), (86400, 300), (240, 1), (6 * 3600, 60)],
)
def test_default_steps(seconds: int, step: float) -> None:
    assert default_step(seconds * 10**9) == step * 10**9


def test_status(api: Api) -> None:
    assert api.error("/api/echo") == (200, "echo")
    assert "version" in api.json("/api/status/buildinfo")
