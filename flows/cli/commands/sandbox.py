"""`gramhouse sandbox`: serves API v1 on this machine, for demos and tests."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output.terminal import clean, err, out
from flows.config.errors import SettingsError
from flows.config.settings import check_variables

if TYPE_CHECKING:
    from connectors.sandbox.faults.rules import Rule
    from connectors.sandbox.http.key_requests import KeyRequest
    from connectors.sandbox.settings import RateLimit

_LIMIT = re.compile(r"(\d+)/(\d+(?:\.\d+)?)")


def _limit(text: str | None) -> "RateLimit | None":
    if text is None:
        return None
    from connectors.sandbox.settings import RateLimit

    found = _LIMIT.fullmatch(text)
    if not found:
        message = f"{text!r} is not a limit. Fix: write REQUESTS/SECONDS, such as 30/60."
        raise SettingsError(message)
    return RateLimit(int(found[1]), float(found[2]))


def _faults(path: Path | None) -> "tuple[Rule, ...]":
    if path is None:
        return ()
    from connectors.sandbox.faults.rules import rule_from_json

    try:
        return tuple(rule_from_json(rule) for rule in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        message = f"{path} is not a list of faults: {error}"
        raise SettingsError(message) from None


def _choices(request: "KeyRequest") -> str:
    from connectors.sandbox.contract import KEY_SCOPES

    scopes = "all scopes" if set(request.scopes) == set(KEY_SCOPES) else ", ".join(request.scopes) or "no scope"
    many = request.accounts if isinstance(request.accounts, int | None) else len(request.accounts)
    return f"{request.name}: {scopes}; {'all' if many is None else many} account{'s' * (many != 1)}"


def _at_two_utc(date: datetime) -> int:
    return int(date.replace(hour=2, tzinfo=UTC).timestamp())


def sandbox(
    *,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 selects a free port.", min=0, max=65535)] = 8787,
    accounts: Annotated[int, typer.Option(help="Number of accounts on the first day.", min=0)] = 40,
    posts: Annotated[int, typer.Option(help="Posts per account, on average.", min=0)] = 60,
    stories: Annotated[int, typer.Option(help="Stories per account and day, on average.", min=0)] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 7,
    day: Annotated[int, typer.Option(help="Simulated day to start at, from 0; the data changes every day.", min=0)] = 0,
    first_day: Annotated[
        datetime | None,
        typer.Option(help="Date of simulated day 0.", formats=["%Y-%m-%d"], show_default="2025-03-01"),
    ] = None,
    shape: Annotated[
        str, typer.Option(help="Shape of media items: graph, camel, flat, mixed, nested or drift.")
    ] = "mixed",
    order: Annotated[
        str, typer.Option(help="Order of posts: newest_first, oldest_first, random, by_id or by_last_edit.")
    ] = "newest_first",
    pins: Annotated[int, typer.Option(help="Pinned posts per account; they are listed first.", min=0, max=5)] = 0,
    archived: Annotated[int, typer.Option(help="One in N posts is archived on two of five days; 0: none.", min=0)] = 0,
    back_dated: Annotated[
        int, typer.Option(help="One in N posts reports a date 40 days too early; 0: none.", min=0)
    ] = 0,
    account_limit: Annotated[
        str | None, typer.Option(help="Rate limit per account, REQUESTS/SECONDS.", show_default=False)
    ] = None,
    catalogue_limit: Annotated[
        str | None, typer.Option(help="Rate limit of the account list, REQUESTS/SECONDS.", show_default=False)
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Create a key, NAME/SCOPES/ACCOUNTS, such as reader/automations:read/30; repeat for more. "
            "SCOPES: all, none, or a comma-separated list. "
            "ACCOUNTS: all, a number N for the first N, or a comma-separated list of ids and usernames.",
            show_default=False,
        ),
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with faults to inject, in the format of POST /_sandbox/faults.", show_default=False
        ),
    ] = None,
) -> None:
    """Serve API v1 on this machine with generated data.

    The key is `sandbox-demo-key`. POST /_sandbox/day advances the data by one day.

    Keys can be managed while it runs: GET /_sandbox/keys lists them, DELETE /_sandbox/keys/NAME revokes one, and POST
    /_sandbox/keys with {"name": "reader", "scopes": ["automations:read"], "accounts": 30} creates one. A secret is
    shown only when its key is created.
    """
    check_variables()
    from connectors.sandbox.data.calendar import FIRST_DAY
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.http.key_requests import request_from_text
    from connectors.sandbox.http.keys import DEMO_KEY
    from connectors.sandbox.http.serve import serve
    from connectors.sandbox.settings import FeedSettings, SandboxSettings

    try:
        requests = [request_from_text(text) for text in key or ()]
        server = Sandbox(
            SandboxSettings(
                seed=seed,
                accounts=accounts,
                posts=posts,
                stories=stories,
                day=day,
                first_day=FIRST_DAY if first_day is None else _at_two_utc(first_day),
                shape=shape,
                feed=FeedSettings(order, pins, archived=archived, back_dated=back_dated),
                account_catalog=_limit(catalogue_limit),
                selected_account=_limit(account_limit),
                faults=_faults(faults),
            )
        )
        made = [(request, server.create_key(request)[1]) for request in requests]
    except ValueError as error:
        raise SettingsError(str(error)) from None

    def ready(url: str) -> None:
        out.print(f"export GRAMHOUSE_BASE_URL={url} GRAMHOUSE_API_KEY={DEMO_KEY}", soft_wrap=True)
        for request, secret in made:
            out.print(f"export GRAMHOUSE_API_KEY={secret}  # {_choices(request)}", soft_wrap=True, highlight=False)
        line, more = ("first line", " The other lines select the created keys.") if made else ("line", "")
        err.print(
            f"[dim]Serving API v1; Stop with Ctrl-C. In another terminal, run the {line} above, then `gramhouse sync`."
            f"{more}[/]"
        )

    try:
        serve(server, port=port, on_ready=ready)
    except OSError as error:
        message = (
            f"cannot listen on port {port}: {clean(error.strerror or error)}. Fix: choose another port with --port."
        )
        raise SettingsError(message) from None
