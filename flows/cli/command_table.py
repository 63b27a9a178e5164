"""The commands as a table. Only the module of the called command is imported."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

ADVANCED = "Advanced"

# Typer's names of types, in words.
_TYPES = {"int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "str": "TEXT", "list[str]": "TEXT"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the first paragraph of its function's docstring, an example, its module if not named like it."""

    help: str
    example: str
    module: str = ""
    context_settings: Mapping[str, Any] = field(default_factory=dict)
    hidden: ClassVar[bool] = False

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - the signature is Click's
        """Return the text next to the command's name in the help, and in a shell that completes it."""
        return self.help


_GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Start": {
        "demo": Command(
            "Run everything on this machine: a sandbox API, a Prefect server, one tracked sync and a query.",
            "gramhouse demo",
        ),
        "doctor": Command(
            "Check configuration, API key, API, warehouse, snapshot, Prefect and workers: one line each.",
            "gramhouse doctor",
        ),
        "sandbox": Command(
            "Serve API v1 on this machine with generated data.",
            "gramhouse sandbox --accounts 200",
        ),
    },
    "Operate": {
        "sync": Command(
            "Sync everything the API key can see into the warehouse and publish a snapshot.",
            "gramhouse sync --surface stories",
        ),
        "backfill": Command(
            "Scan selected accounts again from the first page and publish a snapshot.",
            "gramhouse backfill --account nasa --surface posts",
        ),
        "up": Command(
            "Start a Prefect server with its UI and serve the scheduled and manual deployments.",
            "gramhouse up --port 4201",
        ),
        "status": Command(
            "Show what is fresh, stale, expired, deferred, failed or interrupted, and why.", "gramhouse status --json"
        ),
        "accounts": Command(
            "List accounts: status, token expiry and age of their media.",
            "gramhouse accounts --expired",
            module="listing",
        ),
        "runs": Command(
            "List recent runs: what they landed and how they ended.", "gramhouse runs --last 5", module="listing"
        ),
    },
    "Read": {
        # A query may begin with a comment, which looks like an option.
        "query": Command(
            "Run a SQL query on the snapshot. Queries and syncs do not block each other.",
            'gramhouse query "SELECT surface, count(*) FROM media GROUP BY surface"',
            module="snapshot",
            context_settings={"ignore_unknown_options": True},
        ),
        "changes": Command(
            "List what the last run found, or the runs since then: new, changed, removed and returned items.",
            "gramhouse changes --since 2d --account nasa --values",
        ),
        "explain": Command(
            "Show what is known of one item or account, in order of time, and why an item is or is not removed.",
            "gramhouse explain nasa",
        ),
        "describe": Command(
            "List the tables and views of the snapshot, or the columns of one of them.",
            "gramhouse describe media",
            module="snapshot",
        ),
        "export": Command(
            "Export the snapshot as Parquet files with a manifest. Does not block a sync.",
            "gramhouse export parquet",
            module="snapshot",
        ),
        "report": Command(
            "Create a self-contained HTML report with charts and tables from the snapshot.",
            "gramhouse report --account nasa --open",
        ),
    },
    "Maintain": {
        "publish": Command(
            "Merge landed pages and publish a new snapshot, without API requests.",
            "gramhouse publish --busy-wait 600",
            module="maintenance",
        ),
        "rebuild": Command(
            "Decode the raw store and the quarantine again with the current mapping and publish, without API requests.",
            "gramhouse rebuild",
            module="maintenance",
        ),
        "compact": Command(
            "Rewrite the warehouse file, compacted and sorted.", "gramhouse compact", module="maintenance"
        ),
        "forget": Command(
            "Erase an account everywhere gramhouse keeps it; syncs do not import it again.",
            "gramhouse forget nasa",
        ),
        "quarantine": Command(
            "List records in quarantine, newest first, with the ids needed to trace their requests.",
            "gramhouse quarantine --limit 5",
        ),
    },
}

COMMANDS: Mapping[str, Command] = {name: each for group in _GROUPS.values() for name, each in group.items()}


def function_of(name: str) -> Callable[..., None]:
    """Import a command's module; return the function that runs it."""
    module = import_module(f"flows.cli.commands.{COMMANDS[name].module or name}")
    function: Callable[..., None] = getattr(module, name)
    return function


class Commands(TyperGroup):
    """The group of all commands, which imports only the one that is called: not for its help or for completion."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - whatever Typer gives a group
        super().__init__(**given | {"commands": dict(COMMANDS)})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - Click's
        """Import the called command, and return its name, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and name and _imported(name), rest

    def format_commands(self, _: Any, formatter: Any) -> None:  # noqa: ANN401 - Click's
        """Write a list of commands for each group."""
        for group, commands in _GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, each.help) for name, each in commands.items()])


class _Described(TyperCommand):
    """A command whose help has types in words, and options that are rarely used in a list of their own."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Click's
        """Write the lists of arguments and options."""
        lists: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], ADVANCED: []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                of_option = getattr(parameter, "rich_help_panel", None) or "Options"
                lists["Arguments" if parameter.param_type_name == "argument" else of_option].append(_in_words(*record))
        for title, rows in lists.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _in_words(names: str, text: str) -> tuple[str, str]:
    names = re.sub(r"<([^<>]+)>", lambda kind: _TYPES.get(kind[1], kind[1]), names)
    return names, re.sub(r"x>=(\d+)\]", r"at least \1]", re.sub(r"(\d+)<=x<=(\d+)", r"\1 to \2", text))


def _imported(name: str) -> Any:  # noqa: ANN401 - a command of Click, which Typer contains
    command = COMMANDS[name]
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    example, context = f"Example: {command.example}", dict(command.context_settings)
    alone.command(name, cls=_Described, epilog=example, context_settings=context)(function_of(name))
    return typer.main.get_command(alone)
