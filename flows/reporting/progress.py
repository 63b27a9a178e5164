"""A run in progress: its live counts, and lines for the person who started it."""

import logging
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal

notices = logging.getLogger("gramhouse")
"""Lines for the person who started a command: on the terminal, and in the log of a flow run."""


@dataclass(slots=True)
class Progress:
    """What a run has done so far: its scans update it, and displays read it.

    `accounts_done` are the accounts whose scans have ended, `waiting` the scans that sleep before their next request,
    `restarted` the scans that began again because their cursor was refused. `requests` includes `retries`. `cooldowns`
    has the end of each rate-limit scope's cooldown (API 4). `refused` are the requests that a limit refused, `allowed`
    those per second that the service allows, if it limits all of them.
    `ending` is what it does after its scans.
    """

    run_id: str | None = None
    accounts: int = 0
    accounts_done: int = 0
    catalogue_complete: bool = False
    pages: int = 0
    items: int = 0
    requests: int = 0
    retries: int = 0
    restarted: int = 0
    waiting: int = 0
    cooldowns: dict[str, datetime] = field(default_factory=dict)
    refused: int = 0
    allowed: float | None = None
    ending: Literal["merge", "publish"] | None = None

    def clear(self) -> None:
        """Begin to count a new run, for the displays that read this one."""
        new = Progress()
        for each in fields(self):
            setattr(self, each.name, getattr(new, each.name))

    @property
    def phase(self) -> str:
        """Return what the run does: list, scan (all accounts are listed), merge, publish."""
        return self.ending or ("scan" if self.catalogue_complete else "list")
