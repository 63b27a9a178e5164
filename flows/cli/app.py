"""The commands, and how an error becomes one line and an exit code."""

import signal
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from connectors.warehouse.errors import SnapshotMissing, WarehouseBusy, WarehouseError, WarehouseUnusable
from flows.cli import demo, describing, doctor, listing, querying, serving, status, syncing
from flows.cli.terminal import FAIL, clean, err
from flows.exit_code import ExitCode
from flows.settings import SettingsError

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
app.command()(syncing.publish)
app.command()(status.status)
app.command()(listing.accounts)
app.command()(listing.runs)
app.command()(querying.query)
app.command()(describing.describe)
app.command()(doctor.doctor)
app.command()(serving.sandbox)


def main() -> None:
    """Run what was typed, and exit with its code."""
    try:
        app()
    except (SettingsError, WarehouseError) as error:
        for line in str(error).splitlines():
            err.print(f"{FAIL} {clean(line)}")
        sys.exit(_EXITS[type(error)])
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # Whoever read our output, a pager say, has seen enough.
        sys.exit(ExitCode.COMPLETE)
