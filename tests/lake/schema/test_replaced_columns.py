from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import SchemaEvolution
from frazil.lake.catalog.lake import Lake
from frazil.lake.evolution import follow_topic, must_change_for, set_on_mismatch
from frazil.lake.schema.replaced_columns import replaced_columns, use_table_names
from frazil.lake.schema.widening import compatible_schemas, widest
from frazil.lake.schema_acceptance import accept_schema
from tests.lake.support import local_config, make_base_table


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(local_config(tmp_path))


def columns(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema(list(kinds.items()))


def test_rows_find_the_column_of_their_type(lake: Lake) -> None:
    table = make_base_table(lake, schema=columns(n=pa.string(), m=pa.int32()))
    table = accept_schema(lake, table, columns(n=pa.int32()), columns(n=pa.bool_()))
    asides = replaced_columns(table.metadata)
    assert asides == {"n": ("n__2", "n__1")}
    for kind, name in ((pa.bool_(), "n"), (pa.int64(), "n__2"), (pa.string(), "n__1"), (pa.float64(), "n")):
        assert use_table_names(columns(m=pa.int32(), n=kind), table.schema(), asides).names == ["m", name]
    assert not must_change_for(table.metadata, columns(n=pa.string()))
    widened = follow_topic(lake, table, columns(n=pa.int64()))
    assert str(widened.schema().find_type("n__2")) == "long"
    with pytest.raises(SchemaEvolution, match="column 'n' is boolean in the table, but double in the topic"):
        follow_topic(lake, table, columns(n=pa.float64()))


def test_schemas_in_as_few_as_can_be() -> None:
    one = columns(a=pa.int64(), b=pa.null(), s=pa.struct([("x", pa.int64())]))
    two = columns(a=pa.float64(), c=pa.string(), s=pa.struct([("y", pa.bool_())]))
    both = columns(a=pa.float64(), b=pa.null(), s=pa.struct([("x", pa.int64()), ("y", pa.bool_())]), c=pa.string())
    assert compatible_schemas([one, two]) == [both]
    assert compatible_schemas([one, columns(a=pa.string(), b=pa.bool_())]) == [
        columns(a=pa.int64(), b=pa.bool_(), s=pa.struct([("x", pa.int64())])),
        columns(a=pa.string()),
    ]
    assert widest([columns(a=pa.bool_()), columns(a=pa.string())]) == columns(a=pa.bool_())
    assert compatible_schemas([]) == []


def test_of_names_that_do_not_go_together_the_first_stays() -> None:
    first = columns(a=pa.struct([("x", pa.int64())]), id=pa.int64())
    second = columns(a=pa.struct([("X", pa.int64()), ("y", pa.int64())]), ID=pa.int64(), **{"a.x": pa.int64()})
    assert widest([first, second]) == columns(a=pa.struct([("x", pa.int64()), ("y", pa.int64())]), id=pa.int64())


def test_what_no_table_can_hold_is_a_problem_or_left_to_the_dead_letters(lake: Lake) -> None:
    table = make_base_table(lake, schema=columns(a=pa.int64()))
    rows = columns(a=pa.int64(), A=pa.int64(), b=pa.string())
    assert must_change_for(table.metadata, rows)
    with pytest.raises(SchemaEvolution, match=r"'a' and 'A' differ in case only.*--dead-letter"):
        follow_topic(lake, table, rows)
    table = follow_topic(lake, set_on_mismatch(lake, table, "dead-letter"), rows)
    assert "b" in table.schema().column_names
    assert "A" not in table.schema().column_names
    assert not must_change_for(table.metadata, rows)
