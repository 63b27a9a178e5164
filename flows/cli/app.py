"""The Typer application, and the mapping of errors to a message of one line and an exit code."""

import io
import signal
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Protocol, runtime_checkable

import typer

from connectors.store.object_store import StoreError
from connectors.warehouse.storage.errors import (
    OtherService,
    QueryError,
    SnapshotMissing,
    WarehouseBusy,
    WarehouseError,
    WarehouseUnusable,
    first_line,
)
from flows.cli.command_table import Commands
from flows.cli.output.streams import drop_output
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable
from flows.reporting.exit_code import SIGNALLED, ExitCode
from models.selection import SelectionError

app = typer.Typer(
    name="gramhouse",
    cls=Commands,
    help="Sync a REST API of social-media accounts and their media into a DuckDB warehouse.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_EXITS: Mapping[type[Exception], ExitCode] = {
    SettingsError: ExitCode.WRONG_USAGE,
    SelectionError: ExitCode.WRONG_USAGE,
    TrackerUnreachable: ExitCode.FAILED,
    WarehouseBusy: ExitCode.BUSY,
    WarehouseUnusable: ExitCode.FAILED,
    OtherService: ExitCode.WRONG_USAGE,
    SnapshotMissing: ExitCode.FAILED,
    ClusterLost: ExitCode.FAILED,
    StoreError: ExitCode.FAILED,
}


@runtime_checkable
class _UsageError(Protocol):
    """The usage error that Typer raises. It is a class of Click, which newer versions of Typer bundle."""

    exit_code: int

    def format_message(self) -> str:
        """Return the error message."""
        ...


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


def _say(error: object) -> None:
    from flows.cli.output.terminal import FAIL, clean, err

    for line in str(error).splitlines():
        # Not wrapped: a terminal does this itself, and a log has the complete line.
        err.print(f"{FAIL} {clean(line)}", soft_wrap=True)


def _prepare() -> None:
    for stream in (sys.stdout, sys.stderr):
        # If a terminal's encoding lacks a character, the line is still shown.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _refused_by_system(error: OSError) -> str:
    return f"{error.filename or 'The output'}: {error.strerror or error}. Fix: correct this and retry."


def _wants_json_log(arguments: Sequence[str]) -> bool:
    """Return whether a command line selects JSON lines. Known before parsing, because usage errors are logged, too."""
    return "--log-format=json" in arguments or ("--log-format", "json") in pairwise(arguments)


def _refused(error: _UsageError) -> tuple[int, str]:
    message = error.format_message()
    if _wants_json_log(sys.argv):
        _say(message)
    else:
        from typer.rich_utils import rich_format_error

        rich_format_error(error)  # type: ignore[arg-type]
    return error.exit_code, message


def _run() -> tuple[int, str | None]:
    """Run the command line; return the exit code, and the message of a command that ended without a report."""
    try:
        return int(app(standalone_mode=False) or ExitCode.COMPLETE), None
    except (SettingsError, SelectionError, WarehouseError, TrackerUnreachable, ClusterLost, StoreError) as error:
        code, message = _EXITS[type(error)], str(error)
    except QueryError as error:
        code, message = (
            ExitCode.FAILED,
            (
                "This version of gramhouse cannot read the snapshot."
                f" DuckDB says: {first_line(error)}. Fix: publish a new one with `gramhouse publish`."
            ),
        )
    except BrokenPipeError:
        # The reader of the output closed it, such as `head`.
        return ExitCode.FAILED, None
    except OSError as error:
        # For example, missing permissions or a full disk: an error of the environment, not a bug.
        code, message = ExitCode.FAILED, _refused_by_system(error)
    except (KeyboardInterrupt, typer.Abort):
        return SIGNALLED + signal.SIGINT, None
    except SystemExit as ended:
        return int(ended.code or 0), None
    except Exception as error:
        if not isinstance(error, _UsageError):
            raise
        return _refused(error)
    _say(message)
    return code, message


def _stop(number: int, _: object) -> None:
    sys.exit(SIGNALLED + number)


def _end(code: int, *, message: str | None, as_json: bool) -> int:
    """Write the JSON object of a failed command, if any, and flush standard output; return the exit code."""
    try:
        if as_json and message:
            from flows.cli.output.terminal import failure, print_json

            print_json(failure(code, message))
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not isinstance(error, BrokenPipeError):
            _say(f"Standard output: {error.strerror}.")
        return code or ExitCode.FAILED
    return code


def main() -> None:
    """Run the command line, and exit with its code. With --json, standard output has one object for every code."""
    _prepare()
    if _wants_json_log(sys.argv):
        from flows.cli.output.json_log import begin

        begin()
    as_json = "--json" in sys.argv
    if as_json:
        signal.signal(signal.SIGTERM, _stop)
    try:
        code, message = _run()
    except Exception as error:
        _end(ExitCode.FAILED, message=f"Bug in gramhouse: {type(error).__name__}: {error}", as_json=as_json)
        raise
    if code >= SIGNALLED:
        message = (
            f"Stopped by {signal.Signals(code - SIGNALLED).name}. Saved pages are kept. Fix: run the same"
            " command to resume."
        )
    sys.exit(_end(code, message=message, as_json=as_json))
