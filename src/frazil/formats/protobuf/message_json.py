"""Writes Protobuf messages as JSON text, for message types that contain themselves and so cannot be columns.

This goes message by message: there is no other way, and few schemas have such fields.
"""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import Error as NoJson
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass


def to_json(array: pa.Array, message: Descriptor, pool: DescriptorPool) -> tuple[pa.Array, dict[int, str]]:
    """Returns the JSON text of each serialized message, and the reasons for those that have none."""
    cls = GetMessageClass(message)
    texts: list[str | None] = []
    faults: dict[int, str] = {}
    for place, data in enumerate(array.to_pylist()):
        text = None
        if data is not None:
            try:
                text = MessageToJson(
                    cls.FromString(data),
                    preserving_proto_field_name=True,
                    indent=None,
                    ensure_ascii=False,
                    descriptor_pool=pool,
                )
            except (DecodeError, NoJson, TypeError, ValueError, RecursionError) as error:
                faults[place] = f"no JSON can be made of it: {' '.join(str(error).split())}"
        texts.append(text)
    return pa.array(texts, pa.string()), faults
