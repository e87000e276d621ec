"""Runs an HTTP server of the same stack as the doors, which reads bodies and drops them.

`python -m bench.bare_http_server PORT` starts it.
"""

from __future__ import annotations

import asyncio
import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from frazil.web.server import HttpServer

HOST = "127.0.0.1"


async def _drop(request: Request) -> Response:
    await request.body()
    return Response(media_type="application/x-protobuf")


async def main(port: int) -> None:
    server = HttpServer(Starlette(routes=[Route("/{path:path}", _drop, methods=["POST"])]), HOST, port)
    await server.start()
    await server.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
