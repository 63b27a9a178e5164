"""The Typer application, and the mapping of errors to a message of one line and an exit code."""

import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import typer

from connectors.buckets.address import BucketError
from connectors.warehouse.storage.errors import OtherService, SnapshotHides, WarehouseBusy, WarehouseError, hint_for
from flows.cli.command_table import COMMANDS, Commands
from flows.cli.output.streams import drop_output
from flows.cli.signals import Stopped, ended_by_signals
from flows.config.errors import ClusterLost, ProcessError, SettingsError, TrackerUnreachable, error_line
from flows.reporting.exit_code import ExitCode
from flows.reporting.progress import notices
from models.selection import SelectionError

app = typer.Typer(
    name="gramhouse",
    cls=Commands,
    help="Sync a REST API of social-media accounts and their media into a DuckDB warehouse.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Rich takes 0.2 s to format a help page, and cannot on a narrow terminal.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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


def _version(*, wanted: bool) -> None:
    if wanted:
        from flows.config.release import release

        typer.echo(f"gramhouse {release()}")
        raise typer.Exit


@app.callback()
def _gramhouse(
    *,
    _: Annotated[bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)] = False,
) -> None:
    pass


def _say(error: object) -> str:
    """Print an error, or as a warning that a signal ended the command; return its text."""
    from flows.cli.output.terminal import FAIL, WARN, clean, err

    for line in str(error).splitlines():
        # Not wrapped: a terminal does this itself, and a log has the complete line.
        err.print(f"{WARN if isinstance(error, Stopped) else FAIL} {clean(line)}", soft_wrap=True)
    return str(error)


class _Notices(logging.Handler):
    """Prints notices as warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        from flows.cli.output.terminal import warn

        warn(record.getMessage())


def _wants(arguments: Sequence[str], value: str, *names: str) -> bool:
    """Return whether an option has a value. Known before parsing, because usage errors are reported accordingly."""
    # A short option has no `=` before its value.
    joined = (f"{name}{sign}{value}" for name in names for sign in ("=", ""))
    return any(each in arguments for each in joined) or any((name, value) in pairwise(arguments) for name in names)


def _usage(error: typer.TyperException, arguments: Sequence[str]) -> str:
    message = error.format_message()
    if "\n" in message:
        # The help, if there are no arguments.
        typer.echo(message, err=True)
        return "Missing command. Fix: see `gramhouse --help`."
    command = next((f" {each}" for each in arguments[:1] if each in COMMANDS), "")
    end = "" if message.endswith((".", "?")) else "."
    return _say(f"{message}{end} Fix: see `gramhouse{command} --help`.")


def _called(arguments: Sequence[str], received: Sequence[int]) -> int:
    """Run the command line and return its exit code. Raises Stopped for a command that failed after a signal."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise SettingsError(f"The argument {argument!a} is not UTF-8. Fix: write it in UTF-8.") from None
    try:
        code = int(app(args=arguments, standalone_mode=False) or ExitCode.COMPLETE)
    except Exception:
        # DuckDB reports a query that a signal interrupted as an error.
        if received:
            raise Stopped(received[0]) from None
        raise
    if code and received:
        raise Stopped(received[0])
    return code


def _run(arguments: Sequence[str], received: Sequence[int]) -> tuple[int, str | None]:
    """Run the command line; return the exit code, and the message of a command that ended without a report."""
    try:
        return _called(arguments, received), None
    except typer.TyperException as error:
        return error.exit_code, _usage(error, arguments)
    except BrokenPipeError:
        # The reader of the output closed it, such as `head`.
        return ExitCode.FAILED, None
    except tuple(_EXITS) as error:
        return next(code for kind, code in _EXITS.items() if isinstance(error, kind)), _say(error_line(error))
    except RuntimeError as error:
        # Python's word for a limit of processes, which includes threads; DuckDB and SQLite have no part in it.
        if "can't start new thread" not in str(error):
            raise
        return ExitCode.FAILED, _say(f"{error}. {hint_for(error, '')}")
    except Stopped as stopped:
        return stopped.code, _say(stopped)
    except SystemExit as ended:
        return int(ended.code or 0), None


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
    if _wants(arguments, "json", "--log-format"):
        from flows.cli.output.json_log import begin

        begin()
    notices.addHandler(_Notices())
    as_json = "--json" in arguments or _wants(arguments, "json", "--format", "-f")

    def last_words(stopped: Stopped) -> None:
        _end(stopped.code, message=_say(stopped), as_json=as_json)

    with ended_by_signals(last_words) as received:
        try:
            code, message = _run(arguments, received)
        except Exception as error:
            _end(ExitCode.FAILED, message=f"Bug in gramhouse: {type(error).__name__}: {error}", as_json=as_json)
            raise
        code = _end(code, message=message, as_json=as_json)
    sys.exit(code)
