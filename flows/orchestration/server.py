"""Prefect's server for this machine alone: with the HTML report, and without requests of other web pages."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from flows.config.errors import TrackerUnreachable
from flows.orchestration.processes import REPORT_PATH

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Links to posts open outside of the sandbox, which isolates the report from Prefect's UI.
_SANDBOX = "sandbox allow-popups allow-popups-to-escape-sandbox"
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": f"default-src 'none'; style-src 'unsafe-inline'; {_SANDBOX}",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class OwnPagesOnly:
    """Answers requests and WebSockets of other web pages with status 403: Prefect's API has no login.

    `origins` are the pages that may send requests. Only browsers send an Origin, and not with every request, but then
    with Sec-Fetch-Site. Programs without these headers are not restricted.
    """

    app: ASGIApp
    origins: AbstractSet[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse a request."""
        refused = scope["type"] != "lifespan" and self._is_foreign(scope["path"], Headers(scope=scope))
        answer = PlainTextResponse("Requests of other web pages are not served.", 403) if refused else self.app
        await answer(scope, receive, send)

    def _is_foreign(self, path: str, headers: Headers) -> bool:
        if (origin := headers.get("origin")) is not None:
            return origin not in self.origins and origin.lower().partition("://")[2] != headers["host"].lower()
        follows_link = headers.get("sec-fetch-dest") == "document" and not path.startswith("/api")
        return headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not follows_link


def _answer(report: Path) -> Response:
    if report.exists():
        return FileResponse(report, media_type="text/html; charset=utf-8", headers=_HEADERS)
    return PlainTextResponse("There is no report yet. Fix: run `gramhouse report`, or wait for the next run.", 404)


def _guarded_app(report: Path) -> ASGIApp:
    settings = get_current_settings()
    own, public = urlsplit(settings.api.url or ""), urlsplit(settings.server.ui.api_url or "")
    app = create_app(final=True)
    # The first route, because the UI has a catch-all route.
    app.router.routes.insert(0, Route(REPORT_PATH, lambda _: _answer(report)))
    # Around the app, not middleware of it: Prefect's own services call the app directly, with another host.
    origins = {*(f"http://{name}:{own.port}" for name in _LOOPBACK), f"{public.scheme}://{public.netloc}"}
    # A page whose name an attacker resolves to this machine has another host.
    hosts = [*_LOOPBACK, *([public.hostname] if public.hostname else [])]
    return TrustedHostMiddleware(OwnPagesOnly(app, origins), hosts, www_redirect=False)


@contextmanager
def prefect_server(listening: socket.socket, report: Path) -> Iterator[None]:
    """Run Prefect's server on a thread during the block, on a socket that listens; it also shows the HTML report.

    It has the environment of this process (`local_prefect`). Raises TrackerUnreachable if it does not start.
    """
    # Open pages of the UI would keep it from ending. Its log lines are those of Prefect.
    config = uvicorn.Config(_guarded_app(report), log_config=None, log_level="warning", timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="prefect-server", daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise TrackerUnreachable("Prefect's server did not start. Fix: correct the error above.")
            time.sleep(0.1)
        yield
    finally:
        # Connections of its database that are in use when its services end log a traceback each.
        logging.disable(logging.CRITICAL)
        server.should_exit = True
        thread.join()
        logging.disable(logging.NOTSET)
