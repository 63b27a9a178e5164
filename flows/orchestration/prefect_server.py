"""Prefect's command line, with a server that also shows the HTML report.

Run it as `python -m flows.orchestration.prefect_server --report FILE server start`.
"""

import runpy
import sys
from functools import wraps
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prefect.server.api import server
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from flows.orchestration.schedules import REPORT_PATH

# Links to posts open outside of the sandbox.
_SANDBOX = "sandbox allow-popups allow-popups-to-escape-sandbox"
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": f"default-src 'none'; style-src 'unsafe-inline'; {_SANDBOX}",
    "X-Content-Type-Options": "nosniff",
}


def show_report(report: Path) -> None:
    """Make the server show the HTML report. Its route is the first, because the UI has a catch-all route."""
    create = server.create_app

    @wraps(create)
    def create_app(*given: Any, **named: Any) -> FastAPI:  # noqa: ANN401 - as they were given
        app = create(*given, **named)
        if not any(getattr(route, "path", None) == REPORT_PATH for route in app.router.routes):
            app.router.routes.insert(0, Route(REPORT_PATH, lambda _: answer(report)))
        return app

    vars(server)["create_app"] = create_app


def answer(report: Path) -> Response:
    """Return the report as a response, with a content security policy that isolates it from Prefect's UI."""
    try:
        page = report.read_bytes()
    except OSError:
        return PlainTextResponse("There is no report yet. Fix: run `gramhouse report`, or wait for the next run.", 404)
    return Response(page, media_type="text/html; charset=utf-8", headers=_HEADERS)


if __name__ == "__main__":
    # The option of `prefect_arguments` in processes.py.
    if sys.argv[1] == "--report":
        show_report(Path(sys.argv[2]))
        del sys.argv[1:3]
    sys.argv[0] = "prefect"
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)
