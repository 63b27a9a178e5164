"""`gramhouse sync` and `gramhouse publish`: what writes."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.terminal import WARN, clean, err, megabytes, out, print_json
from flows.exit_code import EXIT_OF, ExitCode
from flows.settings import Settings, load, prefect_api_url

if TYPE_CHECKING:
    from flows.pipeline import RunReport

T = TypeVar("T")


# Takes the signals back, for a coroutine in which others have taken them for themselves.
_listen: ContextVar[Callable[[], None]] = ContextVar("listen")


def run_until_signalled(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; SIGTERM and SIGINT cancel it, so that it can close what it opened.

    Exits with 128 plus the signal's number when one came.
    """
    received: list[int] = []

    async def main() -> T:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            received.append(number)
            if task is not None:
                task.cancel()

        def listen() -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop, number)

        listen()
        _listen.set(listen)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not received:
            raise
        err.print("Stopped. What had landed is kept; the next `gramhouse sync` goes on from there.")
        sys.exit(128 + received[0])


async def _sync(settings: Settings, chosen: Mapping[str, object]) -> "RunReport":
    from flows.cli.progress import watch
    from flows.run import Counters

    counters = Counters()
    api = prefect_api_url()
    if api is None:
        from flows.means import means, order
        from flows.pipeline import run_once

        async with means(settings, "gramhouse sync") as at_hand:
            with watch(counters):
                return await run_once(order(settings), at_hand, counters=counters)
    from flows.sync import SyncOptions, Watcher, tracked_sync

    with watch(counters):
        # Prefect takes SIGTERM for itself when a flow run begins, and would raise it amid whatever runs.
        watcher = Watcher(counters, begun=_listen.get(), lost=lambda said: err.print(f"{WARN} {clean(said)}"))
        return await tracked_sync(SyncOptions.model_validate(chosen), watcher)


def _speak_up() -> None:
    # Of our own, and of nobody else: Prefect and its client would say every request of theirs.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for room in ("connectors", "flows"):
        ours = logging.getLogger(room)
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


def sync(
    *,
    base_url: Annotated[
        str | None, typer.Option(help="Address of the service (GRAMHOUSE_BASE_URL).", show_default=False)
    ] = None,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Accounts walked at once (GRAMHOUSE_CONCURRENCY).", show_default=False)
    ] = None,
    page_size: Annotated[
        int | None, typer.Option(help="Records per page, 1 to 50 (GRAMHOUSE_PAGE_SIZE).", show_default=False)
    ] = None,
    max_wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds one limited account may make the run wait (GRAMHOUSE_MAX_WAIT).", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say every retry and wait.")] = False,
) -> None:
    """Bring the warehouse into step with everything the API key can see, and publish a snapshot.

    A run that was killed is carried on: pages that had landed are not asked for again.

    Exit codes: 0 complete, 1 failed, 2 wrong usage or configuration, 3 partial, 4 the warehouse is held by
    another process.
    """
    chosen = {
        "base_url": base_url,
        "warehouse": warehouse,
        "snapshot": snapshot,
        "concurrency": concurrency,
        "page_size": page_size,
        "max_wait": max_wait,
    }
    settings = load(**chosen)
    address, _ = settings.address(), settings.key()
    if verbose:
        _speak_up()
    api = prefect_api_url()
    how = (
        f"tracked by {clean(api)}" if api else "run directly: PREFECT_API_URL is not set, so Prefect does not track it"
    )
    err.print(f"[bold]gramhouse sync[/] of {clean(address)}, {how}.")
    report = run_until_signalled(_sync(settings, chosen))
    if as_json:
        from flows.report import to_json

        out.out(to_json(report))
    else:
        from flows.cli.sync_report import show

        show(report)
    raise typer.Exit(EXIT_OF[report.state])


def publish(*, warehouse: WarehouseFile = None, snapshot: SnapshotFile = None, as_json: AsJson = False) -> None:
    """Fold what has landed and publish a new snapshot, without asking the API."""
    from flows.upkeep import publish_now

    settings = load(warehouse=warehouse, snapshot=snapshot)
    size = run_until_signalled(publish_now(settings))
    if as_json:
        print_json({"snapshot": str(settings.snapshot), "snapshot_bytes": size})
    else:
        out.print(f"Published {clean(settings.snapshot)} ({megabytes(size)}).")
    raise typer.Exit(ExitCode.COMPLETE)
