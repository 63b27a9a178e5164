"""`gramhouse sandbox`: serves API v1 on this machine, for demos and tests."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output.terminal import clean, err, out
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import check_variables

if TYPE_CHECKING:
    from connectors.sandbox.http.keys import KeyRequest
    from connectors.sandbox.settings import RateLimit

_HOUR = 3600
_DAY = 24 * _HOUR
# The time of day at which each simulated day begins, so that a nightly sync sees the day's items.
_BEGINS = 2


def _limit(text: str | None) -> "RateLimit | None":
    if text is None:
        return None
    from connectors.sandbox.settings import RateLimit

    try:
        requests, seconds = text.split("/")
        return RateLimit(int(requests), float(seconds))
    except ValueError:
        message = f"{text!r} is not a limit. Fix: write REQUESTS/SECONDS, both more than 0, such as 30/60."
        raise SettingsError(message) from None


def _key(text: str) -> "KeyRequest":
    from connectors.sandbox.contract import KEY_SCOPES
    from connectors.sandbox.http.keys import KeyRequest

    parts = text.split("/")
    try:
        name, scopes, accounts = (*parts, *("all",) * (3 - len(parts)))
        granted = {"all": KEY_SCOPES, "none": ()}.get(scopes, scopes.split(","))
        listed = None if accounts == "all" else accounts.split(",")
        reached = int(accounts) if accounts.isdecimal() else listed
        return KeyRequest.model_validate({"name": name, "scopes": granted, "accounts": reached})
    except ValueError:
        pass
    message = (
        f"{text!r} is not a key. Fix: write NAME/SCOPES/ACCOUNTS, such as reader/automations:read/30;"
        f" the scopes are {', '.join(KEY_SCOPES)}."
    )
    raise SettingsError(message)


def _first_day(date: datetime | None, day: int, now: datetime) -> int:
    if date is not None:
        return int(date.replace(hour=_BEGINS, tzinfo=UTC).timestamp())
    seconds = int(now.timestamp())
    return seconds - (seconds - _BEGINS * _HOUR) % _DAY - day * _DAY


def sandbox(
    *,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 selects a free port.", min=0, max=65535)] = 8787,
    accounts: Annotated[int, typer.Option(help="Number of accounts on the first day.", min=0, max=1_000_000)] = 40,
    posts: Annotated[int, typer.Option(help="Posts per account, on average.", min=0, max=5_000_000)] = 60,
    stories: Annotated[int, typer.Option(help="Stories per account and day, on average.", min=0, max=100)] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 7,
    day: Annotated[
        int, typer.Option(help="Simulated day to start at, from 0; the data changes every day.", min=0, max=10_000)
    ] = 0,
    first_day: Annotated[
        datetime | None,
        typer.Option(
            metavar="DATE", help="Date of simulated day 0.", formats=["%Y-%m-%d"], show_default="today minus --day"
        ),
    ] = None,
    account_limit: Annotated[str | None, typer.Option(help="Rate limit per account, REQUESTS/SECONDS.")] = None,
    catalogue_limit: Annotated[
        str | None, typer.Option(help="Rate limit of the account list, REQUESTS/SECONDS.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Create a key, NAME/SCOPES/ACCOUNTS, such as reader/automations:read/30; repeat for more. "
            "SCOPES: all, none, or a comma-separated list. "
            "ACCOUNTS: all, a number N for the first N, or a comma-separated list of ids and usernames.",
        ),
    ] = None,
) -> None:
    """Serve API v1 on this machine with generated data.

    The key is `sandbox-demo-key`. POST /_sandbox/day advances the data by one day.

    Keys, rate limits and faults can be changed while it runs: see docs/sandbox.md.
    """
    check_variables()
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.http.keys import DEMO_KEY
    from connectors.sandbox.http.serve import serve
    from connectors.sandbox.settings import SandboxSettings

    requests = [_key(text) for text in key or ()]
    server = Sandbox(
        SandboxSettings(
            seed=seed,
            accounts=accounts,
            posts=posts,
            stories=stories,
            day=day,
            first_day=_first_day(first_day, day, SystemClock().now()),
            account_catalog=_limit(catalogue_limit),
            selected_account=_limit(account_limit),
        )
    )
    try:
        secrets = [server.create_key(request)[1] for request in requests]
    except ValueError as error:
        message = f"{error}. Fix: choose another --key."
        raise SettingsError(message) from None

    def ready(url: str) -> None:
        out.print(f"export GRAMHOUSE_BASE_URL={url} GRAMHOUSE_API_KEY={DEMO_KEY}", soft_wrap=True)
        for text, secret in zip(key or (), secrets, strict=True):
            out.print(f"export GRAMHOUSE_API_KEY={secret}  # {clean(text)}", soft_wrap=True)
        line, more = ("first line", " The other lines select the created keys.") if secrets else ("line", "")
        err.print(
            f"[dim]Serving API v1; stop with Ctrl-C. In another terminal, run the {line} above, then `gramhouse sync`."
            f"{more}[/]"
        )

    try:
        serve(server, port=port, on_ready=ready)
    except OSError as error:
        message = (
            f"cannot listen on port {port}: {clean(error.strerror or error)}. Fix: choose another port with --port."
        )
        raise SettingsError(message) from None
