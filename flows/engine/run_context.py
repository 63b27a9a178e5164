"""What the parts of a run share: its resources, and its state."""

from collections.abc import Callable
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from datetime import datetime

from connectors.buckets.snapshot_bucket import SnapshotBucket
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import BackoffPolicy, Send
from connectors.warehouse.warehouse import Warehouse
from flows.engine.accounts import ScanAccount, scan_account
from flows.engine.batches import AccountBatcher
from flows.engine.concurrency import Slots
from flows.engine.scan import ScanContext
from flows.reporting.progress import Progress
from flows.reporting.words import Say
from models.clock import Clock
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of a run, including time, randomness and ids.

    `base_url` is the service's address, as normalized by `connectors.source.base_url.normalized`; None: the warehouse
    is not bound to a service. `max_wait` is in seconds. `scan_account` scans accounts in this process or on workers.
    `bucket` is where the snapshot is published in addition to its file on this machine.
    """

    send: Send
    warehouse: Warehouse
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    slots: Slots
    page_size: int = 50
    max_wait: float = 3600.0
    scan_expired: bool = False
    base_url: str | None = None
    policy: BackoffPolicy = field(default_factory=BackoffPolicy)
    mapping: Mapping = BUILT_IN
    scan_account: ScanAccount = scan_account
    bucket: SnapshotBucket | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run in progress: what its `scans` share, and the accounts that it listed, in `batcher`.

    `cooldowns` has the end of each rate-limit scope's cooldown, from earlier runs. `accept_removals`: the user confirms
    that accounts missing from this run's catalogue are removed. `say` shows a line to the user.
    """

    scans: ScanContext
    resources: RunResources
    started_at: datetime
    cooldowns: Map[str, datetime]
    batcher: AccountBatcher
    accept_removals: bool
    say: Say

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.scans.options.run_id

    @property
    def progress(self) -> Progress:
        """Return the live counts."""
        return self.scans.progress

    def budget(self, scope: str) -> RateLimitBudget:
        """Return this run's wait budget for a rate-limit scope, including a cooldown of an earlier run."""
        resources, resume_after = self.resources, self.cooldowns.get(scope)
        if resume_after is not None:
            self.progress.cooldowns[scope] = resume_after
        now, monotonic = resources.clock.now(), resources.clock.monotonic()
        return RateLimitBudget.seeded(scope, resources.max_wait, resume_after, now=now, monotonic=monotonic)
