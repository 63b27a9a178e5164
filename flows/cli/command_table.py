"""The commands as a table. Only the module of the called command is imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the module in commands/ that has the function of its name, and that function's first paragraph."""

    module: str
    help: str
    context_settings: Mapping[str, Any] = field(default_factory=dict)
    hidden: ClassVar[bool] = False

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - the signature is Click's
        """Return the text next to the command's name in the help, and in a shell that completes it."""
        return self.help


COMMANDS: Mapping[str, Command] = {
    "demo": Command(
        "demo", "Run everything on this machine: a sandbox API, a Prefect server, one tracked sync and some queries."
    ),
    "sync": Command("sync", "Sync everything the API key can see into the warehouse and publish a snapshot."),
    "backfill": Command("backfill", "Scan selected accounts again from the first page and publish a snapshot."),
    "publish": Command("sync", "Merge landed pages and publish a new snapshot, without API requests."),
    "compact": Command("maintenance", "Rewrite the warehouse file, compacted and sorted."),
    "rebuild": Command(
        "maintenance",
        "Decode the raw store and the quarantine again with the current mapping and publish, without API requests.",
    ),
    "status": Command("status", "Show what is fresh, stale, expired, deferred, failed or interrupted, and why."),
    "accounts": Command("listing", "List accounts: status, token expiry and age of their media."),
    "runs": Command("listing", "List recent runs: what they landed and how they ended."),
    "quarantine": Command(
        "quarantine",
        "List records in quarantine, newest first, with the ids needed to trace their requests.",
    ),
    # A query may begin with a comment, which looks like an option.
    "query": Command(
        "snapshot",
        "Run a SQL query on the snapshot. Queries and syncs do not block each other.",
        {"ignore_unknown_options": True},
    ),
    "describe": Command("snapshot", "List the tables and views of the snapshot, or the columns of one of them."),
    "export": Command("snapshot", "Export the snapshot as Parquet files with a manifest. Does not block a sync."),
    "report": Command(
        "report",
        "Create a self-contained HTML report with charts and tables from the snapshot.",
    ),
    "doctor": Command(
        "doctor",
        "Check configuration, API key, API, warehouse, snapshot, Prefect and workers: one line each.",
    ),
    "up": Command(
        "up",
        "Start a Prefect server with its UI and serve the scheduled and manual deployments.",
    ),
    "sandbox": Command("sandbox", "Serve API v1 on this machine with generated data."),
}


def function_of(name: str) -> Callable[..., None]:
    """Import a command's module; return the function that runs it."""
    function: Callable[..., None] = getattr(import_module(f"flows.cli.commands.{COMMANDS[name].module}"), name)
    return function


class Commands(TyperGroup):
    """The group of all commands, which imports only the one that is called: not for its help or for completion."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - whatever Typer gives a group
        super().__init__(**given | {"commands": dict(COMMANDS)})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - Click's
        """Import the called command, and return its name, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and name and _imported(name), rest


def _imported(name: str) -> Any:  # noqa: ANN401 - a command of Click, which Typer contains
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, context_settings=dict(COMMANDS[name].context_settings))(function_of(name))
    return typer.main.get_command(alone)
