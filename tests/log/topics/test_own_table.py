from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.errors import TableTaken, TopicMismatch
from frazil.log.log import Log
from frazil.log.topics.schemas import TopicSchemas

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.RecordBatch.from_pydict({"n": [1, 2]}, SCHEMA)


def config(folder: Path, **settings: Any) -> Config:
    quiet = {door: {"enabled": False} for door in ("loki", "prometheus")}
    return Config.model_validate({"data_dir": folder / "data", **quiet, **settings})


@pytest.mark.parametrize(
    ("first", "second", "table"),
    [
        ("a_b_c", "a.b.c", "frazil.a_b_c"),
        ("a.b.c", "a_b_c", "frazil.a_b_c"),
        ("frazil.orders", "orders", "frazil.orders"),
        ("orders", "orders__dead_letter", "frazil.orders__dead_letter"),
        ("orders__dead_letter", "orders", "frazil.orders__dead_letter"),
    ],
)
def test_a_topic_whose_table_is_another_ones_is_refused_when_it_comes(
    tmp_path: Path, first: str, second: str, table: str
) -> None:
    with Log(config(tmp_path)) as log:
        log.writer(first, SCHEMA).append(ROWS)
        with pytest.raises(TableTaken) as caught:
            log.writer(second, SCHEMA)
        assert f"{table} would be a table of it, and is one of topic {first!r}" in str(caught.value)
        assert log.topics() == [first]
        log.writer(first, SCHEMA).append(ROWS)
        # Another one is not in its way.
        log.writer("a.b_c", SCHEMA).append(ROWS)


def test_topics_of_the_settings_keep_their_tables(tmp_path: Path) -> None:
    named = config(
        tmp_path,
        topics={"orders": {"table": {"name": "bought"}, "derived": {"daily": {"sql": "SELECT * FROM orders"}}}},
        kafka={"bootstrap_servers": ["127.0.0.1:1"], "topics": ["shop.visits"]},
    )
    with Log(named) as log:
        for stranger, owner in (
            ("bought", "orders"),
            ("daily", "orders"),
            ("shop_visits", "shop.visits"),
            ("logs__dead_letter", "logs"),
        ):
            with pytest.raises(TopicMismatch, match=f"is one of topic '{owner}'"):
                log.writer(stranger, SCHEMA)
        log.writer("orders", SCHEMA).append(ROWS)
        log.writer("shop.visits", SCHEMA).append(ROWS)


def test_topics_that_are_there_go_on(tmp_path: Path) -> None:
    """The two topics were created before this rule existed."""
    with Log(config(tmp_path)) as log:
        for topic in ("a_b_c", "a.b.c"):
            TopicSchemas(log.store, topic, 100).admit(SCHEMA)
            assert log.writer(topic, SCHEMA).append(ROWS).rows == 2
        wider = pa.schema([*SCHEMA, pa.field("m", pa.int64())])
        log.admit("a.b.c", wider)
        assert log.schemas("a.b.c").known().schema == wider
