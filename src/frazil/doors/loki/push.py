"""Describes Loki's push requests: path, topic, message and conversions."""

from __future__ import annotations

from frazil.doors.loki.json_body import to_protobuf
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.formats.loki import push as loki
from frazil.formats.loki.messages import PushRequest
from frazil.formats.otlp import logs

PATH = "/loki/api/v1/push"

PUSH = RequestKind(logs.TOPIC, logs.SCHEMA, PushRequest, to_protobuf, loki.to_rows)
