"""Where Spark calls back into this process, for `foreachBatch` and for listeners: a port that asks for a token.

PySpark would start it by itself, without one, and any user of the machine could call what is registered there. On
Java's side a client that is pointed to another port forgets its token, so it gets one that was made with it.
"""

from __future__ import annotations

import secrets
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject

_IDLE_SECONDS = 30
"""After which Java closes a connection, as it does by default."""


def listen_for_callbacks(gateway: JavaGateway) -> None:
    """Before PySpark does: it then finds the server running, and leaves it as it is."""
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
