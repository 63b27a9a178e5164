"""The commands as a table. Only the module of the called command is imported."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

ADVANCED = "Advanced"

# Typer's names of types, in words.
_TYPES = {"int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "str": "TEXT", "list[str]": "TEXT"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the first paragraph of its function's docstring, and an example, without the program's name."""

    help: str
    example: str
    hidden: ClassVar[bool] = False

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - the signature is Click's
        """Return the text next to the command's name in the help, and in a shell that completes it."""
        return self.help


_GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Start": {
        "demo": Command("Run everything on this machine: a sandbox API, Prefect, a sync, a query.", "demo"),
        "doctor": Command("Check configuration, API, warehouse, snapshot, Prefect: one line each.", "doctor"),
        "sandbox": Command("Serve API v1 on this machine with generated data.", "sandbox --accounts 200"),
    },
    "Operate": {
        "sync": Command("Sync all that the API key can see, and publish a snapshot.", "sync --surface stories"),
        "backfill": Command("Scan selected accounts again from the first page.", "backfill --account paper.market"),
        "up": Command("Start a Prefect server with its UI, and serve the deployments.", "up --port 4201"),
        "status": Command("Show what is fresh, stale, expired, failed or interrupted, and why.", "status --json"),
        "accounts": Command("List accounts: status, token expiry and age of their media.", "accounts --expired"),
        "runs": Command("List recent runs: what they landed and how they ended.", "runs --last 5"),
    },
    "Read": {
        "query": Command("Run a SQL query on the snapshot, even during a sync.", 'query "FROM runs LIMIT 5"'),
        "changes": Command("List what the last run, or the runs since then, found.", "changes --since 2d"),
        "explain": Command("Show what is known of an item or account, in order of time.", "explain paper.market"),
        "describe": Command("List the snapshot's tables and views, or the columns of one.", "describe media"),
        "export": Command("Export the snapshot as Parquet files.", "export parquet"),
        "report": Command(
            "Create a self-contained HTML report with charts and tables.", "report --account paper.market"
        ),
    },
    "Maintain": {
        "publish": Command("Merge landed pages and publish a snapshot, without requests.", "publish --busy-wait 60"),
        "rebuild": Command("Read raw store and quarantine again with the current mapping.", "rebuild"),
        "compact": Command("Rewrite the warehouse file, compacted and sorted.", "compact"),
        "forget": Command("Erase an account everywhere; syncs do not import it again.", "forget paper.market"),
        "quarantine": Command("List records in quarantine, newest first.", "quarantine --limit 5"),
    },
}

# The modules of commands that are not in one of their own.
_MODULES = {
    **dict.fromkeys(("up", "sandbox"), "serving"),
    "backfill": "sync",
    **dict.fromkeys(("accounts", "runs", "quarantine"), "listing"),
    **dict.fromkeys(("query", "describe", "export", "report"), "snapshot"),
    **dict.fromkeys(("publish", "rebuild", "compact", "forget"), "maintenance"),
}

COMMANDS: Mapping[str, Command] = {name: each for group in _GROUPS.values() for name, each in group.items()}


def function_of(name: str) -> Callable[..., None]:
    """Import a command's module; return the function that runs it."""
    module = import_module(f"flows.cli.commands.{_MODULES.get(name, name)}")
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
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    # A query may begin with a comment, which looks like an option.
    context = {"ignore_unknown_options": name == "query"}
    example = f"Example: gramhouse {COMMANDS[name].example}"
    alone.command(name, cls=_Described, epilog=example, context_settings=context)(function_of(name))
    return typer.main.get_command(alone)
