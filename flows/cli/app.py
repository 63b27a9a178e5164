"""The command line: its commands, and how they end: an answer, which is printed here, or one line, cause and fix."""

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from connectors.buckets import BucketError
from connectors.warehouse.storage.errors import (
    OtherService,
    QueryError,
    SnapshotHides,
    WarehouseBusy,
    WarehouseError,
)
from flows.cli.command_table import COMMANDS, GROUPS
from flows.cli.output.json_log import Records, begin_json_log
from flows.cli.output.streams import drop_output
from flows.cli.signals import Stopped
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.reporting.exit_code import ExitCode
from flows.reporting.progress import notices
from models.runs import RUN_KINDS
from models.selection import SelectionError

if TYPE_CHECKING:
    from flows.cli.output.terminal import Answer

# Errors that are the user's to fix, with messages of one line; the first code with a class that matches decides.
_EXITS: Mapping[ExitCode, tuple[type[Exception], ...]] = {
    ExitCode.WRONG_USAGE: (SettingsError, SelectionError, OtherService, QueryError),
    ExitCode.BUSY: (WarehouseBusy,),
    ExitCode.PARTIAL: (SnapshotHides,),
    ExitCode.FAILED: (WarehouseError, TrackerUnreachable, ClusterLost, BucketError, OSError),
}

# Known before parsing, because of usage errors. The arguments are separated by NUL.
_JSON = re.compile(r"(?<![^\0])(--json|(--format|-f)[=\0]?json)(?![^\0])")
_JSON_LOG = re.compile(r"(?<![^\0])--log-format[=\0]json(?![^\0])")
_WAREHOUSE = re.compile(r"(?<![^\0])--warehouse[=\0]([^\0]+)")

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


def _call(arguments: Sequence[str], command: str | None) -> "Answer | None":
    """Run the command line; return the command's answer, if it has one. Raises SettingsError for wrong usage."""
    if any(argument != argument.encode(errors="replace").decode() for argument in arguments):
        raise SettingsError(f"The arguments {' '.join(arguments)!a} are not UTF-8. Fix: write them in UTF-8.")
    app = build_app()
    if command:
        # The table has the first paragraph of its help; the function's docstring has all.
        paragraphs = (app[command].default_command.__doc__ or "").split("\n\n")
        app[command].help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    try:
        answer: Answer | None = app(arguments, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise SettingsError(*_explain_usage(error, command)) from error
    return answer


def _explain_usage(error: CycloptsError, command: str | None) -> list[str]:
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        from flows.config.options import refusals

        return refusals(error.__cause__)
    what, fix = str(error).partition(" Available commands: ")[0], f"see `gramhouse {command or ''}".strip() + " --help`"
    if error.argument and (why := getattr(error, "exception_message", "")):
        what = f"{error.argument.name}: {why[:1].lower()}{why[1:]}"
    elif isinstance(error, UnusedCliTokensError):
        what = f"Unexpected argument {' '.join(error.unused_tokens or ())!r}"
    return [f"{what}{'' if what.endswith(('.', '?')) else '.'} Fix: {fix}."]


def _is_mistyped(error: Exception) -> bool:
    """Return whether options were mistyped at a terminal: nothing that runs on schedule has failed."""
    of_options = isinstance(error.__cause__, CycloptsError) or all(str(line).startswith("--") for line in error.args)
    return isinstance(error, SettingsError) and of_options and sys.stderr.isatty()


def _run(arguments: Sequence[str], typed: str) -> "Answer | None":
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    # The failure of runs is recorded even if they do not begin: schedules start them.
    if command not in RUN_KINDS or not {"--help", "-h", "--dry-run", "--plan"}.isdisjoint(arguments):
        return _call(arguments, command)
    from flows.reporting.recording import record_failed_start

    warehouse = _WAREHOUSE.search(typed)
    with record_failed_start(command, {"warehouse": warehouse and warehouse[1]}, unless=_is_mistyped):
        return _call(arguments, command)


def _find_end(error: BaseException) -> tuple[int, Sequence[str]] | None:
    """Return the exit code and the messages of what ended a command; None: it is a bug."""
    if isinstance(error, SystemExit | Stopped):
        return int(error.code or 0), [str(error)] if isinstance(error, Stopped) else []
    if isinstance(error, BrokenPipeError):
        # The reader of the output closed it, such as `head`.
        return ExitCode.FAILED, []
    for code, kinds in _EXITS.items():
        if isinstance(error, kinds):
            return code, [str(line) for line in error.args] if isinstance(error, SettingsError) else [error_line(error)]
    return None


def _warn(record: logging.LogRecord) -> None:
    from flows.cli.output.terminal import warn

    warn(record.getMessage())


def _show(answer: "Answer", *, as_json: bool) -> int:
    """Print an answer; return the exit code."""
    from flows.cli.output.terminal import complain

    try:
        answer.show(as_json=as_json)
    except OSError as error:
        drop_output()
        if not isinstance(error, BrokenPipeError):
            complain(f"Standard output: {error.strerror}.")
        return answer.code if answer.is_done else answer.code or ExitCode.FAILED
    return answer.code


def main() -> None:
    """Run the command line, and exit with its code. With --json, standard output has one object for every code."""
    arguments = sys.argv[1:]
    typed = "\0".join(arguments)
    if _JSON_LOG.search(typed):
        begin_json_log()
    notices.addHandler(Records(_warn))
    as_json = _JSON.search(typed) is not None
    try:
        answer = _run(arguments, typed)
    except BaseException as error:
        from flows.cli.output.terminal import complain, failure

        if (end := _find_end(error)) is None:
            bug = f"Bug in gramhouse: {type(error).__name__}: {error}"
            _show(failure(ExitCode.FAILED, bug), as_json=as_json)
            raise
        code, messages = end
        answer = failure(code, "\n".join(messages))
        for message in messages:
            complain(message)
    from flows.cli.output.terminal import Answer

    sys.exit(_show(answer or Answer(None), as_json=as_json))
