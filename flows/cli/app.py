"""The command line: its commands, and how they end: an answer, which is printed here, or one line, cause and fix."""

import re
import sys
from collections.abc import Mapping, Sequence

from cyclopts import App, CycloptsError, Group, Parameter

from connectors.buckets import BucketError
from flows.cli.command_table import COMMANDS, GROUPS
from flows.cli.signals import Stopped
from flows.cli.terminal import Answer, begin_log, failure
from flows.config.errors import ClusterLost, ExitCode, SettingsError, TrackerUnreachable, error_line
from flows.reporting.progress import notices
from models.files import (
    OtherService,
    QueryError,
    SnapshotHides,
    WarehouseBusy,
    WarehouseError,
)
from models.selection import SelectionError

EXITS: Mapping[ExitCode, tuple[type[Exception], ...]] = {
    ExitCode.WRONG_USAGE: (SettingsError, SelectionError, OtherService, QueryError),
    ExitCode.BUSY: (WarehouseBusy,),
    ExitCode.PARTIAL: (SnapshotHides,),
    ExitCode.FAILED: (WarehouseError, TrackerUnreachable, ClusterLost, BucketError, OSError),
}
"""Errors that are the user's to fix, with messages of one line; the first code with a class that matches decides."""

# Known before parsing, because of usage errors. The arguments are separated by NUL.
_JSON = re.compile(r"(?<![^\0])(--json|(--format|-f)[=\0]?json)(?![^\0])")
_JSON_LOG = re.compile(r"(?<![^\0])--log-format[=\0]json(?![^\0])")

_OPTIONS = Group("Options", sort_key=len(GROUPS))


def _version() -> str:
    from models import release

    return f"gramhouse {release()}"


def build_app() -> App:
    """Return the application, whose commands are imported when they are called."""
    app = App(
        name="gramhouse",
        help="Sync a REST API of social-media accounts and their media into a DuckDB warehouse.",
        version=_version,
        help_format="plaintext",
        group_parameters=_OPTIONS,
        # An option that is off by default has no --no-; its default is no news either.
        default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    groups = {name: Group(name, sort_key=at) for at, name in enumerate(GROUPS)}
    for at, (name, command) in enumerate(COMMANDS.items()):
        app.command(
            f"flows.cli.commands.{command.module}:{name}",
            name,
            group=groups[command.group],
            sort_key=at,
            help=command.help,
            help_epilogue=f"Example: gramhouse {name} {command.example}".rstrip(),
        )
    about = "Install shell completion for this application."
    app.register_install_completion_command(help=about, group=_OPTIONS)
    for name in ("--help", "--version"):
        app[name].group = _OPTIONS
    return app


def _call(arguments: Sequence[str]) -> Answer | None:
    """Run the command line; return the command's answer, if it has one. Raises SettingsError for wrong usage."""
    if any(argument != argument.encode(errors="replace").decode() for argument in arguments):
        raise SettingsError(f"The arguments {' '.join(arguments)!a} are not UTF-8. Fix: write them in UTF-8.")
    app, command = build_app(), arguments[0] if arguments and arguments[0] in COMMANDS else ""
    if command:
        # The table has the first paragraph of its help; the function's docstring has all, and then the options.
        text, _, _ = (app[command].default_command.__doc__ or "").partition("\n\n    Args:\n")
        paragraphs = text.split("\n\n")
        app[command].help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    try:
        answer: Answer | None = app(arguments, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise SettingsError(*_explain_usage(error, command)) from error
    return answer


def _explain_usage(error: CycloptsError, command: str) -> list[str]:
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        from flows.config.options import refusals

        return refusals(error.__cause__)
    what, fix = str(error).partition(" Available commands: ")[0], f"see `gramhouse {command}".strip() + " --help`"
    return [f"{' '.join(what.split())}{'' if what.endswith(('.', '?')) else '.'} Fix: {fix}."]


def _end(error: BaseException) -> Answer:
    """Say what ended a command; return that as its answer."""
    code, messages, bug = int(ExitCode.FAILED), [error_line(error)], None
    if isinstance(error, Stopped):
        code = error.code
    elif isinstance(error, SystemExit):
        code, messages = int(error.code or 0), []
    elif isinstance(error, BrokenPipeError):
        # The reader of the output closed it, such as `head`.
        messages = []
    elif found := [code for code, kinds in EXITS.items() if isinstance(error, kinds)]:
        code, messages = found[0], list(map(str, error.args)) if isinstance(error, SettingsError) else messages
    else:
        messages, bug = [f"Bug in gramhouse: {type(error).__name__}: {error}"], error
    for message in messages:
        notices.error(message, exc_info=bug)
    return failure(code, "\n".join(messages))


def main() -> None:
    """Run the command line, and exit with its code. With --json, standard output has one object for every code."""
    arguments = sys.argv[1:]
    typed = "\0".join(arguments)
    begin_log(as_json=_JSON_LOG.search(typed) is not None)
    try:
        answer = _call(arguments)
    except BaseException as error:  # noqa: BLE001 - each error is printed and has an exit code
        answer = _end(error)
    sys.exit((answer or Answer(None)).show(as_json=_JSON.search(typed) is not None))
