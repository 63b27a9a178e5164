"""`gramhouse sandbox`: serves API v1 on this machine, for demos and tests."""

from typing import Annotated

import typer

from flows.cli.output.terminal import clean, err, out
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import check_variables

_HOUR = 3600
_DAY = 24 * _HOUR
# The time of day at which each simulated day begins, so that a nightly sync sees the day's items.
_BEGINS = 2


def sandbox(
    *,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 selects a free port.", min=0, max=65535)] = 8787,
    accounts: Annotated[int, typer.Option(help="Number of accounts on the first day.", min=0, max=1_000_000)] = 40,
    posts: Annotated[int, typer.Option(help="Posts per account, on average.", min=0, max=5_000_000)] = 60,
    stories: Annotated[int, typer.Option(help="Stories per account and day, on average.", min=0, max=100)] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 7,
    day: Annotated[
        int,
        typer.Option(help="Simulated day to start at, which is today; the data changes every day.", min=0, max=10_000),
    ] = 0,
) -> None:
    """Serve API v1 on this machine with generated data.

    The key is `sandbox-demo-key`. POST /_sandbox/day advances the data by one day.

    Days, keys, rate limits and faults can be changed while it runs: see docs/sandbox.md.
    """
    check_variables()
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.http.keys import DEMO_KEY
    from connectors.sandbox.http.serve import serve
    from connectors.sandbox.settings import SandboxSettings

    now = int(SystemClock().now().timestamp())
    first_day = now - (now - _BEGINS * _HOUR) % _DAY - day * _DAY
    settings = SandboxSettings(seed=seed, accounts=accounts, posts=posts, stories=stories, day=day, first_day=first_day)

    def ready(url: str) -> None:
        out.print(f"export GRAMHOUSE_BASE_URL={url} GRAMHOUSE_API_KEY={DEMO_KEY}", soft_wrap=True)
        err.print(
            "[dim]Serving API v1; stop with Ctrl-C. In another terminal, run the line above, then `gramhouse sync`.[/]"
        )

    try:
        serve(Sandbox(settings), port=port, on_ready=ready)
    except OSError as error:
        message = (
            f"cannot listen on port {port}: {clean(error.strerror or error)}. Fix: choose another port with --port."
        )
        raise SettingsError(message) from None
