"""What a Dask worker does: it scans a piece, some accounts of a run, within bounds, and returns what the run lands.

No clock of a worker is stored: a piece continues the clock of the run by the seconds since it was sent.
"""

import asyncio
import hashlib
import pickle
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from random import SystemRandom

from connectors.source.base_url import normalized
from connectors.source.client import ApiClient
from connectors.source.errors import Failure
from connectors.source.request_rate import RequestRate
from flows.clock import ContinuedClock, SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.engine.pages import scan_pages
from flows.engine.requests import Requests, StopRun
from flows.engine.run_request import RunRequest
from flows.engine.scan import AccountScan, Scan, ScanContext, Start, begin_scan
from flows.reporting.progress import Progress
from models.mapping import Mapping as MediaMapping
from models.page_commit import PageCommit
from models.page_items import post_reader
from models.release import release

# The bounds of a piece: bytes of pages, and seconds. It leaves sleeps of more than MOST_SLEEP seconds to the run.
MOST_BYTES = 16 * 1024 * 1024
MOST_SECONDS = 60.0
MOST_SLEEP = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """What a worker scans, and how. `sent_at` and `monotonic` are the run's clock. It has no API key."""

    request: RunRequest
    run_id: str
    resumed: tuple[str, ...]
    mapping: MediaMapping
    sent_at: datetime
    monotonic: float
    rate: RequestRate
    accounts: Sequence[AccountScan]


@dataclass(slots=True)
class Share:
    """What a worker returns of one account: what the run lands, in order, and what is left to scan after `seconds`."""

    account: AccountScan
    commits: list[PageCommit] = field(default_factory=list)
    failed: list[Start | Scan] = field(default_factory=list)
    seconds: float = 0.0
    stopped_by: Failure | None = None


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a worker returns of a piece: a share of each account in its order, its counts, and the rate it found."""

    shares: list[Share]
    progress: Progress
    rate: RequestRate


class Leave(Exception):  # noqa: N818 - not an error
    """A scan ends between two requests, and continues in another piece after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class PieceRequests(Requests):
    """The requests of a piece: a long sleep is left to the run."""

    async def sleep(self, seconds: float) -> None:
        """Sleep before the next request. Raises Leave if that takes long."""
        if seconds > MOST_SLEEP:
            raise Leave(seconds)
        await super().sleep(seconds)


async def scan_piece(piece: Piece, client: ApiClient, clock: ContinuedClock) -> Scanned:
    """Scan the accounts of a piece until it has MOST_BYTES of pages, for MOST_SECONDS, or until all of them wait."""
    settings, progress = piece.request.settings, Progress()
    requests = PieceRequests(
        concurrency=settings.concurrency,
        rate=piece.rate,
        most=None,
        max_wait=settings.max_wait,
        clock=clock,
        progress=progress,
    )
    size = 0

    async def scan(share: Share) -> None:
        async def land(commit: PageCommit) -> None:
            nonlocal size
            share.commits.append(commit)
            size += len(commit.page.body) if commit.page else 0

        context = ScanContext(
            piece.request,
            piece.run_id,
            piece.resumed,
            client.send,
            requests,
            land,
            post_reader(piece.mapping),
            clock,
            SystemRandom().random,
            new_id,
            progress,
        )
        left = share.account.left
        try:
            while left:
                if isinstance(each := left[0], Start):
                    each = left[0] = begin_scan(context, each)
                    each.may_repeat = True
                outcomes = 0
                async with aclosing(scan_pages(context, each, share.account.budget)) as commits:
                    async for commit, page in commits:
                        await land(commit)
                        outcomes = len(commit.outcomes)
                        is_late = clock.monotonic() - piece.monotonic >= MOST_SECONDS
                        if page is not None and not outcomes and (is_late or size >= MOST_BYTES):
                            # `scan_pages` counts a page when the next one is asked for.
                            progress.pages += 1
                            progress.items += page.items
                            return
                left.pop(0)
                share.failed += [] if outcomes else [each]
        except Leave as leave:
            share.seconds = max(leave.seconds, share.account.budget.due(clock.monotonic()))
        except StopRun as stop:
            share.stopped_by = stop.failure

    shares = [Share(account) for account in piece.accounts]
    await asyncio.gather(*map(scan, shares))
    return Scanned(shares, progress, requests.pacer.rate)


def describe_terms(settings: Settings, salt: str) -> dict[str, str]:
    """Return what run and workers must have in common. The salt makes the fingerprint of the key useless elsewhere."""
    key = settings.key().get_secret_value().encode()
    return {
        "gramhouse": release(),
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "the address": normalized(settings.address()),
        "an API key with the fingerprint": hashlib.blake2b(key, key=salt.encode(), digest_size=8).hexdigest(),
    }


def run_piece(terms: Mapping[str, str], salt: str, packed: bytes) -> bytes:
    """Scan a piece on a worker, with the address and the key of its own environment; no clock of it is stored.

    Raises SettingsError if the worker differs from the run.
    """
    from distributed import get_worker  # noqa: PLC0415 - a part of an extra

    name = f"the worker {get_worker().address}"
    try:
        settings = load()
        own = describe_terms(settings, salt)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from None
    for what, wanted in terms.items():
        if own[what] != wanted:
            fix = "start the workers with the installation and the settings of the run"
            raise SettingsError(f"{name} has {what} {own[what]}, and the run has {wanted}. Fix: {fix}.")
    # After the check: another version may not be able to read it.
    piece: Piece = pickle.loads(packed)  # noqa: S301 - the scheduler's clients can run any code here
    clock, network = ContinuedClock(SystemClock(), piece.sent_at, piece.monotonic), settings.network()

    async def scan() -> Scanned:
        client = ApiClient(
            settings.address(),
            settings.key(),
            clock=clock,
            concurrency=piece.request.settings.concurrency,
            network=network,
            paths=piece.request.settings.page_paths(),
        )
        async with client:
            return await scan_piece(piece, client, clock)

    return pickle.dumps(asyncio.run(scan()))
