"""Describes the messages of Substrait that an Arrow expression is written as, as far as predicates need them.

Fields are numbered as in Substrait's `extended_expression.proto` and `algebra.proto`. What is not listed is skipped
when a message is read; a message of which no listed field is set is something that predicates cannot express.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "frazil.substrait"
_SIMPLE = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
}
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ExtendedExpression": {"extensions": (2, "Extension*"), "expressions": (3, "Referred*")},
    "Extension": {"function": (3, "Function")},
    "Function": {"anchor": (2, "uint32"), "name": (3, "string")},
    "Referred": {"expression": (1, "Expression")},
    "Expression": {
        "literal": (1, "Literal"),
        "selection": (2, "Selection"),
        "call": (3, "Call"),
        "if_then": (6, "IfThen"),
        "among": (8, "Among"),
    },
    "Literal": {
        "boolean": (1, "bool"),
        "i8": (2, "int32"),
        "i16": (3, "int32"),
        "i32": (5, "int32"),
        "i64": (7, "int64"),
        "fp32": (10, "float"),
        "fp64": (11, "double"),
        "string": (12, "string"),
        "binary": (13, "bytes"),
        "timestamp": (14, "int64"),
        "date": (16, "int32"),
        "time": (17, "int64"),
        "fixed_binary": (23, "bytes"),
        "decimal": (24, "Decimal"),
        "timestamp_tz": (27, "int64"),
        "null": (29, "Empty"),
    },
    "Decimal": {"value": (1, "bytes"), "precision": (2, "int32"), "scale": (3, "int32")},
    "Empty": {},
    "Selection": {"direct": (1, "Segment"), "root": (4, "Empty")},
    "Segment": {"struct": (2, "StructField")},
    "StructField": {"field": (1, "int32"), "child": (2, "Segment")},
    "Call": {"function": (1, "uint32"), "arguments": (4, "Argument*"), "options": (5, "Option*")},
    "Argument": {"value": (3, "Expression")},
    "Option": {"name": (1, "string"), "preference": (2, "string*")},
    "IfThen": {"ifs": (1, "IfClause*"), "otherwise": (2, "Expression")},
    "IfClause": {"condition": (1, "Expression"), "then": (2, "Expression")},
    "Among": {"value": (1, "Expression"), "options": (2, "Expression*")},
}


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="frazil_substrait.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            plain = kind.removesuffix("*")
            label = _Field.LABEL_OPTIONAL if plain == kind else _Field.LABEL_REPEATED
            described = message.field.add(name=field, number=number, label=label)
            if plain in _SIMPLE:
                described.type = _SIMPLE[plain]
            else:
                described.type, described.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ExtendedExpression"))


ExtendedExpression: Any = _message_class()
