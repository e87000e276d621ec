"""Schemas that would crash the compiler or the decoder are refused, and those just below the limits are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import SchemaUnsupported
from frazil.formats.protobuf import message_of
from frazil.formats.protobuf.schema_limits import MOST_BRACKETS
from frazil.formats.registry.schema import Reference, RegisteredSchema

HEAD = 'syntax = "proto3";'


def schema(text: str, *references: Reference) -> RegisteredSchema:
    return RegisteredSchema("PROTOBUF", HEAD + text, references)


def chain(length: int, field: str = "A{}") -> str:
    """Returns a schema of messages, each of which contains the next one."""
    links = (f"message A{each} {{ {field.format(each + 1)} a = 1; }}" for each in range(length))
    return "".join(links) + f"message A{length} {{ int32 x = 1; }}"


@pytest.mark.parametrize("text", ["message A{" * 100_000 + "}" * 100_000, "message A{" * 100_000])
def test_brackets_within_brackets(text: str) -> None:
    """The brackets would overflow the compiler's stack, also if they are never closed."""
    with pytest.raises(SchemaUnsupported, match="brackets within each other"):
        message_of(schema(text), (0,))
    imported = Reference("other.proto", schema(text))
    with pytest.raises(SchemaUnsupported, match="brackets within each other"):
        message_of(schema('import "other.proto"; message A {}', imported), (0,))


def test_messages_within_messages_as_deep_as_the_bound() -> None:
    """The compiled schema is too deep for the Protobuf runtime, which says so."""
    text = "message A{" * MOST_BRACKETS + "}" * MOST_BRACKETS
    with pytest.raises(SchemaUnsupported, match="cannot be compiled"):
        message_of(schema(text), (0,))


@pytest.mark.parametrize(("field", "longest"), [("A{}", 49), ("repeated A{}", 24), ("map<string, A{}>", 16)])
def test_levels_of_columns(field: str, longest: int) -> None:
    column, good, faults = message_of(schema(chain(longest, field)), (0,)).decode(pa.array([b""], pa.binary()))
    assert (len(column), good.tolist(), faults) == (1, [0], {})
    with pytest.raises(SchemaUnsupported, match="more than 50 levels deep"):
        message_of(schema(chain(longest + 1, field)), (0,))


def test_few_messages_that_are_very_many_columns() -> None:
    """Each message contains the next one three times: 3,486,784,401 columns."""
    links = (f"message A{each} {{ {' '.join(f'A{each + 1} f{n} = {n};' for n in (1, 2, 3))} }}" for each in range(20))
    with pytest.raises(SchemaUnsupported, match="more than 10,000 fields"):
        message_of(schema("".join(links) + "message A20 { int32 x = 1; }"), (0,))


def test_a_message_within_itself_is_no_deeper_for_that() -> None:
    text = "message A { A a = 1; B b = 2; } message B { repeated A a = 1; int32 x = 2; }"
    assert message_of(schema(text), (0,)).kind.num_fields == 2
