"""The commands, and how an error becomes one line and an exit code."""

import io
import logging
import signal
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from connectors.warehouse.errors import SnapshotMissing, WarehouseBusy, WarehouseError, WarehouseUnusable
from connectors.warehouse.snapshot import QueryError
from flows.cli import (
    backfilling,
    compacting,
    demo,
    describing,
    doctor,
    exporting,
    listing,
    quarantining,
    querying,
    rebuilding,
    serving,
    status,
    syncing,
    up,
)
from flows.cli.terminal import FAIL, clean, err
from flows.exit_code import ExitCode
from flows.settings import SettingsError, TrackerUnreachable
from models.selection import SelectionError

app = typer.Typer(
    name="gramhouse",
    help="Keeps a DuckDB warehouse in step with a REST API of social-media accounts and their media.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_EXITS: Mapping[type[Exception], ExitCode] = {
    SettingsError: ExitCode.WRONG_USAGE,
    SelectionError: ExitCode.WRONG_USAGE,
    TrackerUnreachable: ExitCode.FAILED,
    WarehouseBusy: ExitCode.BUSY,
    WarehouseUnusable: ExitCode.FAILED,
    SnapshotMissing: ExitCode.FAILED,
}


def _version(*, wanted: bool) -> None:
    if wanted:
        from flows.means import release

        typer.echo(f"gramhouse {release()}")
        raise typer.Exit


@app.callback()
def _gramhouse(
    *,
    _: Annotated[bool, typer.Option("--version", help="Say the version.", callback=_version, is_eager=True)] = False,
) -> None:
    pass


app.command()(demo.demo)
app.command()(syncing.sync)
app.command()(backfilling.backfill)
app.command()(syncing.publish)
app.command()(compacting.compact)
app.command()(rebuilding.rebuild)
app.command()(status.status)
app.command()(listing.accounts)
app.command()(listing.runs)
app.command()(quarantining.quarantine)
# A question may begin with a comment, which looks like an option.
app.command(context_settings={"ignore_unknown_options": True})(querying.query)
app.command()(describing.describe)
app.command()(exporting.export)
app.command()(doctor.doctor)
app.command()(up.up)
app.command()(serving.sandbox)


def _say(error: object) -> None:
    for line in str(error).splitlines():
        # One line, however long: a terminal breaks it where it must, and a log has it whole.
        err.print(f"{FAIL} {clean(line)}", soft_wrap=True)


def _prepare() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign still shows the line.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # What goes wrong with the file is said once, by us; the pool would add a traceback from its tidying up.
    logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())


def main() -> None:
    """Run what was typed, and exit with its code."""
    _prepare()
    try:
        app()
    except (SettingsError, SelectionError, WarehouseError, TrackerUnreachable) as error:
        _say(error)
        sys.exit(_EXITS[type(error)])
    except QueryError as error:
        said = str(error).splitlines()[0]
        _say(f"The snapshot is none of this gramhouse: `gramhouse publish` makes it anew. DuckDB says: {said}")
        sys.exit(ExitCode.FAILED)
    except OSError as error:
        # A folder that may not be read, a full disk below our output: the machine's refusal, and no bug.
        _say(f"{error.filename or 'What was to be written'}: {error.strerror or error}. Mend that, and try again.")
        sys.exit(ExitCode.FAILED)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
