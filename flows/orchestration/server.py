"""Prefect's server for this machine alone: with the HTML report, and without requests of other web pages.

Run it as `python -m flows.orchestration.server REPORT`, with host and port in PREFECT_SERVER_API_HOST and _PORT.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from flows.orchestration.processes import REPORT_PATH

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Links to posts open outside of the sandbox.
_SANDBOX = "sandbox allow-popups allow-popups-to-escape-sandbox"
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": f"default-src 'none'; style-src 'unsafe-inline'; {_SANDBOX}",
    "X-Content-Type-Options": "nosniff",
}


def _name(netloc: str) -> str:
    return re.sub(r":\d*$", "", netloc).lower()


@dataclass(frozen=True, slots=True)
class OwnPagesOnly:
    """Answers requests and WebSockets of other web pages with status 403: Prefect's API has no login.

    `hosts` are the names, without a port, under which the server may be addressed: a page whose name an attacker
    resolves to this machine has another. `origins` are the pages that may send requests. Only browsers send an Origin,
    and not with every request, but then with Sec-Fetch-Site. Programs without these headers are not restricted.
    """

    app: ASGIApp
    hosts: AbstractSet[str]
    origins: AbstractSet[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse a request."""
        why = None if scope["type"] == "lifespan" else self._refusal(scope["path"], Headers(scope=scope))
        await (self.app if why is None else PlainTextResponse(why, 403))(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> str | None:
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if _name(host) not in self.hosts:
            return (
                f"{host or 'A request without a host'} is not served. Fix: open http://127.0.0.1 with the port of"
                " `gramhouse up`, or set PREFECT_SERVER_UI_API_URL to the address of the API for browsers."
            )
        if origin is None:
            foreign = headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
            follows_link = headers.get("sec-fetch-dest") == "document" and not path.startswith("/api")
            return "Requests of other web pages are not served." if foreign and not follows_link else None
        if origin in self.origins or origin.lower().partition("://")[2] == host:
            return None
        return f"Requests of web pages of {origin} are not served."


def answer(report: Path) -> Response:
    """Return the report as a response, with a content security policy that isolates it from Prefect's UI."""
    try:
        page = report.read_bytes()
    except OSError:
        return PlainTextResponse("There is no report yet. Fix: run `gramhouse report`, or wait for the next run.", 404)
    return Response(page, media_type="text/html; charset=utf-8", headers=_HEADERS)


def _end_with_parent() -> None:
    """Wait for the end of standard input, a pipe from the process that started this one, and then stop the server."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def serve(report: Path) -> None:
    """Run the server until a signal ends it, or the process that started it is gone."""
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    settings = get_current_settings()
    api = settings.server.api
    public = urlsplit(settings.server.ui.api_url or "")
    app = create_app(final=True)
    # The first route, because the UI has a catch-all route.
    app.router.routes.insert(0, Route(REPORT_PATH, lambda _: answer(report)))
    # Around the app, not a middleware of it: Prefect's own services call the app directly, with another host.
    guarded = OwnPagesOnly(
        app,
        hosts={*_LOOPBACK, _name(public.netloc)} - {""},
        origins={*(f"http://{name}:{api.port}" for name in _LOOPBACK), f"{public.scheme}://{public.netloc}"},
    )
    uvicorn.run(
        guarded,
        host=api.host,
        port=api.port,
        timeout_keep_alive=api.keepalive_timeout,
        ws_ping_interval=api.websocket_ping_interval,
        ws_ping_timeout=api.websocket_ping_timeout,
        log_level=settings.server.logging_level.lower(),
        # Open pages of the UI would keep it from ending.
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
