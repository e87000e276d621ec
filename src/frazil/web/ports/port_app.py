"""Routes the requests of one port to the endpoints that parts contributed to it."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Iterable, Iterator
from typing import Any

from starlette.convertors import Convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.errors import BodyTooLarge, FrazilError, TooMuch
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import BodyIncomplete, BodyStalled, pass_over
from frazil.web.error_texts import text_for_client
from frazil.web.ports.contributions import BareEndpoint, Contribution, Endpoint, Handler, check_contributions
from frazil.web.ports.dialects import dialect_of
from frazil.web.ports.request_metrics import NO_ROUTE, Measured, RequestMetrics

logger = logging.getLogger(__name__)

WEBSOCKET = "WEBSOCKET"


class _Route:
    """The endpoints of one path, by method."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.pattern: re.Pattern[str]
        self._converters: dict[str, Convertor[Any]]
        self.pattern, _, self._converters = compile_path(path)
        self.handlers: dict[str, Handler] = {}

    def parameters(self, match: re.Match[str]) -> dict[str, Any]:
        return {name: self._converters[name].convert(text) for name, text in match.groupdict().items()}


class PortApp:
    """Is the ASGI application of one port. Paths without names in braces come first, then the others as given."""

    def __init__(self, port: str, contributions: Iterable[Contribution], metrics: RequestMetrics) -> None:
        given = list(contributions)
        check_contributions(given)
        self._port = port
        self._dialect = dialect_of(port)
        self._metrics = metrics
        self._bare: dict[str, dict[str, ASGIApp]] = {}
        self._fixed: dict[str, _Route] = {}
        self._patterns: dict[str, _Route] = {}
        for each in given:
            if isinstance(each, BareEndpoint):
                self._bare.setdefault(each.path, {}).update(dict.fromkeys(each.methods, each.app))
            else:
                self._add(each)

    def _add(self, endpoint: Endpoint) -> None:
        routes = self._patterns if "{" in endpoint.path else self._fixed
        route = routes.setdefault(endpoint.path, _Route(endpoint.path))
        for method in endpoint.methods:
            route.handlers[method] = endpoint.handler
        if "GET" in endpoint.methods and self._dialect.answers_head:
            route.handlers.setdefault("HEAD", endpoint.handler)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        bare = self._bare.get(scope["path"])
        if bare is not None:
            app = bare.get(scope.get("method", WEBSOCKET))
            if app is not None:
                return app(scope, receive, send)
        return self._routed(scope, receive, send)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Before it is accepted, this refuses a WebSocket with 403.
            await send({"type": "websocket.close"})
            return
        route, handler, parameters = self._find(scope["path"], scope["method"])
        measured = Measured(self._metrics, self._port, route, scope, send)
        request = Request({**scope, "path_params": parameters}, receive, measured.send)
        try:
            response = await handler(request)
            await response(request.scope, receive, measured.send)
        except ClientDisconnect:
            return
        except FrazilError as error:
            await self._fail(error, request, measured)
        except Exception as error:
            logger.exception("a request failed", extra={"port": self._port, "route": route})
            await self._fail(error, request, measured)
        finally:
            measured.end()

    async def _fail(self, error: Exception, request: Request, measured: Measured) -> None:
        if measured.status is None:
            response = self._dialect.failed(error)
            if isinstance(error, BodyStalled | BodyIncomplete):
                response.headers["connection"] = "close"
            await response(request.scope, request.receive, measured.send)
            if isinstance(error, BodyTooLarge | TooMuch):
                await pass_over(AsgiBody(request.scope, request.receive))
            return
        # The answer has begun. The server breaks the connection off when the last part of an answer is missing, so
        # that the client knows that it is not whole.
        logger.warning(
            "an answer was broken off", extra={"path": request.scope["path"], "reason": text_for_client(error)}
        )

    def _find(self, path: str, method: str) -> tuple[str, Handler, dict[str, Any]]:
        allowed: dict[str, None] = dict.fromkeys(self._bare.get(path, ()))
        allowed.pop(WEBSOCKET, None)
        shown = NO_ROUTE
        fixed = self._fixed.get(path)
        if fixed is not None:
            handler = fixed.handlers.get(method)
            if handler is not None:
                return fixed.path, handler, {}
            allowed.update(dict.fromkeys(fixed.handlers))
            shown = fixed.path
        for route, match in self._matching(path):
            handler = route.handlers.get(method)
            if handler is not None:
                return route.path, handler, route.parameters(match)
            allowed.update(dict.fromkeys(route.handlers))
            shown = route.path if shown == NO_ROUTE else shown
        refusal = self._dialect.wrong_method(method, allowed) if allowed else self._without_route(path)

        async def refuse(_: Request) -> Response:
            return refusal

        return shown, refuse, {}

    def _without_route(self, path: str) -> Response:
        """Answers a path that is not served. If only a slash at its end is too much or missing, the client is told
        where to go."""
        other = path[:-1] if path.endswith("/") else f"{path}/"
        if other in self._bare or other in self._fixed or any(self._matching(other)):
            return RedirectResponse(other, 307)
        return self._dialect.no_such_path()

    def _matching(self, path: str) -> Iterator[tuple[_Route, re.Match[str]]]:
        for route in self._patterns.values():
            match = route.pattern.fullmatch(path)
            if match is not None:
                yield route, match
