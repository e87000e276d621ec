"""Long queries are laid out over several lines as Loki does it, and mean the same."""

from __future__ import annotations

import pytest

from frazil.query.logql.parse.layout import laid_out
from frazil.query.logql.parse.parser import parse

SELECTOR = '{namespace="monitoring-namespace", container="container-name"}'

CASES = [
    ('{a="b"} | json', '{a="b"} | json'),
    (
        f'{SELECTOR} |= "level=error" | json | logfmt | x="1" and y="2"',
        f'{SELECTOR}\n  |= "level=error"\n  | json\n  | logfmt\n  | ( x="1" , y="2" )',
    ),
    (
        f'topk(10, sum by (namespace, container) (rate({SELECTOR} |= "level=error" [5m] offset 5m)))',
        "topk(\n  10,\n  sum by (namespace, container)(\n    rate(\n"
        f'      {SELECTOR} |= "level=error" [5m] offset 5m\n    )\n  )\n)',
    ),
    (
        f'quantile_over_time(0.99, {SELECTOR} |= "x" | json | unwrap duration(latency) | __error__="" [5m]) '
        "by (namespace)",
        f'quantile_over_time(\n  0.99,\n  {SELECTOR} |= "x" | json\n    | unwrap duration(latency)\n'
        '    | __error__="" [5m]\n) by (namespace)',
    ),
    (
        f'label_replace(sum by (a) (rate({SELECTOR}[5m])), "foo", "$1", "container", "(.*)")',
        f"label_replace(\n  sum by (a)(rate({SELECTOR}[5m])),\n"
        '  "foo",\n  "$1",\n  "container",\n  "(.*)"\n)',
    ),
    (
        f"sum by (a) (rate({SELECTOR}[5m])) / on (a) group_left (x) sum by (a) (rate({SELECTOR}[5m]))",
        f"  sum by (a)(rate({SELECTOR}[5m]))\n/ on (a) group_left (x)\n  sum by (a)(rate({SELECTOR}[5m]))",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), CASES)
def test_layout(query: str, expected: str) -> None:
    assert laid_out(parse(query)) == expected
    assert parse(laid_out(parse(query))) == parse(query)
