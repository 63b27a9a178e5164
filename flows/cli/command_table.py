"""The commands as a table: only the module of the one that is typed is imported."""

from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from flows.cli.importing import importing
from flows.cli.output.help_page import page, wants_colour


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the module of this package that has a function of its name, and that function's first paragraph."""

    module: str
    help: str
    context_settings: Mapping[str, Any] = field(default_factory=dict)
    hidden: ClassVar[bool] = False

    def get_short_help_str(self) -> str:
        """Return what a shell shows beside the name that it completes."""
        return self.help


COMMANDS: Mapping[str, Command] = {
    "demo": Command(
        "demo", "Run it all here: our own API server, a Prefect server, one tracked sync, and a first look at the data."
    ),
    "sync": Command(
        "sync", "Bring the warehouse into step with everything the API key can see, and publish a snapshot."
    ),
    "backfill": Command("backfill", "Scan chosen accounts again from the first page, and publish a snapshot."),
    "publish": Command("sync", "Merge what has landed and publish a new snapshot, without asking the API."),
    "compact": Command("compact", "Rewrite the warehouse file, compact and sorted, in place of the old one."),
    "rebuild": Command(
        "rebuild",
        "Read everything stored again by the present mapping, and publish it, without a request to the API.",
    ),
    "status": Command("status", "Say what is fresh, stale, expired, deferred, failed or interrupted, and why."),
    "accounts": Command(
        "listing", "List the accounts: their status, since when a token is expired, how old their media are."
    ),
    "runs": Command("listing", "List the last runs: what they landed, and how they ended."),
    "quarantine": Command(
        "quarantine",
        "List the records in quarantine, newest first, with what is needed to find their requests again.",
    ),
    # A question may begin with a comment, which looks like an option.
    "query": Command(
        "query",
        "Ask the snapshot a question, at any hour: no sync is disturbed by it, or disturbs it.",
        {"ignore_unknown_options": True},
    ),
    "describe": Command(
        "describe", "Say what analysts find in the snapshot: its tables and views, or the columns of one."
    ),
    "export": Command(
        "export", "Write the snapshot as Parquet, with a manifest, for other engines; at any hour, as queries are."
    ),
    "report": Command(
        "report",
        "Make one self-contained HTML page of charts and tables from the snapshot, for operators and analysts.",
    ),
    "doctor": Command(
        "doctor",
        "Check configuration, key, API (accounts and one media page), warehouse, snapshot and Prefect: one line each.",
    ),
    "up": Command(
        "up",
        "Bring up Prefect's server with its UI, and serve the nightly sync, the stories, backfills and publishing.",
    ),
    "sandbox": Command("sandbox", "Serve the whole of API v1 on this machine, over a made-up catalogue."),
}


def function_of(name: str) -> Callable[..., None]:
    """Import a command's module; return the function that runs it."""
    with importing():
        function: Callable[..., None] = getattr(import_module(f"flows.cli.commands.{COMMANDS[name].module}"), name)
    return function


class _Imported(UserDict[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a command of Click, which newer versions of Typer contain
        if self.data[name] is None:
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            alone.command(name, context_settings=dict(COMMANDS[name].context_settings))(function_of(name))
            self.data[name] = typer.main.get_command(alone)
        return self.data[name]


class Commands(TyperGroup):
    """The group of all commands. Its own help needs none of their modules."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - whatever Typer gives a group
        super().__init__(**given)
        self.commands = _Imported()

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - the signature is Click's
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401 - the signature is Click's
        """Complete a command's name from the table: importing every command takes longer than a person waits."""
        imported, self.commands = self.commands, UserDict[str, Any](COMMANDS)
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = imported

    def format_help(self, ctx: Any, formatter: object) -> None:  # noqa: ANN401, ARG002 - the signature is Click's
        """Write the page to standard output."""
        options = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx))]
        rows = [(name, command.help) for name, command in COMMANDS.items()]
        shown = page(self.get_usage(ctx), self.help or "", [("Options", options), ("Commands", rows)])
        typer.echo(shown, color=wants_colour())
