"""Answers what clients ask before they trust a server."""

from __future__ import annotations

import platform

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.replies import json_reply, text_reply
from frazil.version import __version__


def echo(request: QueryRequest, context: QueryContext) -> Reply:
    return text_reply("echo")


def build_info(request: QueryRequest, context: QueryContext) -> Reply:
    return json_reply(
        {
            "version": __version__,
            "revision": "",
            "branch": "",
            "buildUser": "",
            "buildDate": "",
            "goVersion": f"python{platform.python_version()}",
        }
    )
