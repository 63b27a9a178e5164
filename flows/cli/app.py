"""The command line: its commands, and the mapping of errors to a message of one line and an exit code."""

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from connectors.buckets.address import BucketError
from connectors.warehouse.storage.errors import OtherService, SnapshotHides, WarehouseBusy, WarehouseError, hint_for
from flows.cli.command_table import COMMANDS, GROUPS
from flows.cli.output.streams import drop_output
from flows.cli.signals import Stopped
from flows.config.errors import ClusterLost, ProcessError, SettingsError, TrackerUnreachable, error_line
from flows.reporting.exit_code import ExitCode
from flows.reporting.progress import notices
from models.selection import SelectionError

# Errors that are the user's to fix, with messages of one line; the first class that matches decides.
_EXITS: Mapping[type[Exception], ExitCode] = {
    SettingsError: ExitCode.WRONG_USAGE,
    SelectionError: ExitCode.WRONG_USAGE,
    OtherService: ExitCode.WRONG_USAGE,
    WarehouseBusy: ExitCode.BUSY,
    SnapshotHides: ExitCode.PARTIAL,
    WarehouseError: ExitCode.FAILED,
    TrackerUnreachable: ExitCode.FAILED,
    ProcessError: ExitCode.FAILED,
    ClusterLost: ExitCode.FAILED,
    BucketError: ExitCode.FAILED,
    OSError: ExitCode.FAILED,
}


# Known before parsing, because usage errors are reported accordingly. The arguments are separated by NUL.
_JSON = re.compile(r"(?<![^\0])(--json|(--format|-f)[=\0]?json)(?![^\0])")
_JSON_LOG = re.compile(r"(?<![^\0])--log-format[=\0]json(?![^\0])")

_OPTIONS = Group("Options", sort_key=len(GROUPS))


def _version() -> str:
    from models.release import release

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
    app.register_install_completion_command()
    for name in ("--help", "--version", "--install-completion"):
        app[name].group = _OPTIONS
    return app


def _describe(app: App, name: str) -> None:
    """Import a command, and give its help all paragraphs of the docstring of its function."""
    command = app[name]
    paragraphs = (command.default_command.__doc__ or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _say(error: object) -> str:
    """Print an error; return its text."""
    from flows.cli.output.terminal import FAIL, clean, err

    for line in str(error).splitlines():
        # Not wrapped: a terminal does this itself, and a log has the complete line.
        err.print(f"{FAIL} {clean(line)}", soft_wrap=True)
    return str(error)


class _Notices(logging.Handler):
    """Prints notices as warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        from flows.cli.output.terminal import warn

        warn(record.getMessage())


def _explain_usage(error: CycloptsError, command: Sequence[str]) -> str:
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        from flows.config.options import refusals

        return "\n".join(refusals(error.__cause__))
    message, fix = str(error).partition(" Available commands: ")[0], f"see `{' '.join(('gramhouse', *command))} --help`"
    if error.argument and (why := getattr(error, "exception_message", "")):
        what, _, own = why.rstrip(".").partition("; ")
        message, fix = f"{error.argument.name}: {what[:1].lower()}{what[1:]}", own or fix
    elif isinstance(error, UnusedCliTokensError):
        message = f"Unexpected argument {' '.join(error.unused_tokens or ())!r}"
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} Fix: {fix}."


def _refuse_usage(error: CycloptsError, arguments: Sequence[str]) -> str:
    """Say what is wrong with the command line; record it for a scheduled run, so that `gramhouse status` shows it."""
    command = [each for each in arguments[:1] if each in COMMANDS]
    message = _explain_usage(error, command)
    if command in (["sync"], ["backfill"]) and not sys.stderr.isatty():
        from flows.reporting.recording import record_failed_start

        with suppress(SettingsError), record_failed_start(command[0], {}):
            raise SettingsError(message)
    return _say(message)


def _run(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise SettingsError(f"The argument {argument!a} is not UTF-8. Fix: write it in UTF-8.") from None
    app = build_app()
    if arguments and arguments[0] in COMMANDS:
        _describe(app, arguments[0])
    return int(app(arguments, print_error=False, exit_on_error=False) or ExitCode.COMPLETE)


def _say_failure(error: BaseException, arguments: Sequence[str]) -> tuple[int, str | None]:
    """Print why a command failed; return the exit code and the message. Raises the error if it is a bug."""
    if isinstance(error, SystemExit):
        return int(error.code or 0), None
    if isinstance(error, Stopped):
        return error.code, _say(error)
    if isinstance(error, CycloptsError):
        return ExitCode.WRONG_USAGE, _refuse_usage(error, arguments)
    if isinstance(error, BrokenPipeError):
        # The reader of the output closed it, such as `head`.
        return ExitCode.FAILED, None
    for kind, code in _EXITS.items():
        if isinstance(error, kind):
            return code, _say(error_line(error))
    # Python's word for a limit of processes, which includes threads; DuckDB and SQLite have no part in it.
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return ExitCode.FAILED, _say(f"{error}. {hint_for(error, '')}")
    raise error


def _end(code: int, *, message: str | None, as_json: bool) -> int:
    """Write the JSON object of a failed command, if any, and flush standard output; return the exit code."""
    try:
        if as_json and message:
            from flows.cli.output.terminal import failure, print_json

            print_json(failure(code, message))
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not (code or isinstance(error, BrokenPipeError)):
            _say(f"Standard output: {error.strerror}.")
        return code or ExitCode.FAILED
    return code


def main() -> None:
    """Run the command line, and exit with its code. With --json, standard output has one object for every code."""
    arguments = sys.argv[1:]
    typed = "\0".join(arguments)
    if _JSON_LOG.search(typed):
        from flows.cli.output.json_log import begin

        begin()
    notices.addHandler(_Notices())
    as_json = _JSON.search(typed) is not None

    code, message = 0, None
    try:
        code = _run(arguments)
    except BaseException as error:  # noqa: BLE001 - what is a bug is raised again
        try:
            code, message = _say_failure(error, arguments)
        except Exception as bug:
            _end(ExitCode.FAILED, message=f"Bug in gramhouse: {type(bug).__name__}: {bug}", as_json=as_json)
            raise
    sys.exit(_end(code, message=message, as_json=as_json))
