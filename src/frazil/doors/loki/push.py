"""Loki's push, in all that the door needs to know of it."""

from __future__ import annotations

from frazil.doors.loki.jsonbody import to_protobuf
from frazil.doors.telemetry.kinds import RequestKind
from frazil.telemetry import logs, loki
from frazil.telemetry.loki_messages import PushRequest

PATH = "/loki/api/v1/push"

PUSH = RequestKind(logs.TOPIC, logs.SCHEMA, PushRequest, to_protobuf, loki.to_rows)
