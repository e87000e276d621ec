"""Starts the server through which Spark calls back into this process (for `foreachBatch`), with a token.

PySpark would start the server without a token, and any user of the machine could call the functions registered there.
Py4J's client in Java forgets its token when its port is changed, so it is replaced by a client with port and token.
"""

from __future__ import annotations

import secrets
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject

_IDLE_SECONDS = 30
"""Java closes a connection after so many idle seconds. It is Py4J's default."""


def listen_for_callbacks(gateway: JavaGateway) -> None:
    """Starts the callback server. It must be called before PySpark starts its own, which it skips then."""
    token = secrets.token_hex(32)
    parameters = gateway.callback_server_parameters
    parameters.auth_token = token
    parameters.eager_load = True
    parameters.daemonize = True
    parameters.daemonize_connections = True
    parameters.port = 0
    gateway.start_callback_server(parameters)
    port = gateway.get_callback_server().get_listening_port()
    gateway._callback_server.port = gateway._python_proxy_port = port
    _call_back(gateway, port, token)


def _call_back(gateway: JavaGateway, port: int, token: str) -> None:
    jvm: Any = gateway.jvm
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    there = server.getGateway()
    former = server.getCallbackClient()
    seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
    sockets = jvm.javax.net.SocketFactory.getDefault()
    client = jvm.py4j.PythonClient(
        there, None, port, former.getAddress(), _IDLE_SECONDS, seconds, sockets, server, True, 0, token
    )
    field = there.getClass().getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(there, client)
