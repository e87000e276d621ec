"""Runs a gRPC server of the same stack as Danube's door, which answers with what it got.

`python -m bench.grpc_echo PORT` starts it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import grpc.aio

METHOD = "/bench.Echo/Echo"


async def _echo(body: bytes, _: Any) -> bytes:
    return body


async def main(port: int) -> None:
    server = grpc.aio.server()
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(_echo)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench.Echo", handlers)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
