"""Has lines that all tests here may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.query.logql.api.support import SECOND, START, Lines


@pytest.fixture(scope="package")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lines]:
    with Lines(tmp_path_factory.mktemp("loki"), loki={"query": {"max_series": 3}}) as made:
        made.push(
            (
                {"app": "shop", "env": "dev"},
                [
                    (
                        START + number * SECOND,
                        f"level={'error' if number % 3 == 0 else 'info'} order={number}",
                        {"user": f"u{number % 2}"},
                    )
                    for number in range(6)
                ],
            ),
            ({"app": "web"}, [(START + 90 * SECOND, '{"path": "/a", "size": {"sent": 12}, "took": "15ms"}', {})]),
        )
        made.seal()
        made.push(({"app": "web"}, [(START + 100 * SECOND, '{"path": "/b", "ok": true}', {})]))
        made.push(({"app": "other"}, [(START, "not yours", {})]), tenant="team-b")
        yield made
