"""The requests that a sandbox received: all of them, counts, and those sent before a cooldown was over."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from connectors.sandbox.contract import ACCOUNTS, ACCOUNTS_PATH, MEDIA
from connectors.sandbox.http.replies import Message, Scope

Entry = dict[str, Any]


class RequestLog:
    """All requests since the last `clear`, oldest first; the status is None until a request is answered.

    `early` is the number of requests that arrived before the Retry-After of an earlier reply to the same key and
    account, or to the same key and the account list, was over.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.entries: list[Entry] = []
        self.early = 0
        self._until: dict[tuple[object, str | None], float] = {}

    def begin(self, scope: Scope) -> Entry:
        """Note a request of the API."""
        parts = scope["path"].removeprefix(ACCOUNTS_PATH).split("/")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        entry = {
            "operation": MEDIA if len(parts) == 3 else ACCOUNTS,
            "account_id": parts[1] if len(parts) == 3 else None,
            **{name: query.get(name, [None])[0] for name in ("surface", "cursor")},
            "status": None,
            "correlation_id": None,
        }
        self.early += self._clock() < self._until.get(_tenant(scope, entry), 0.0)
        self.entries.append(entry)
        return entry

    def answer(self, scope: Scope, entry: Entry, start: Message) -> None:
        """Note the beginning of a response."""
        headers = dict(start["headers"])
        entry |= {"status": start["status"], "correlation_id": headers.get(b"x-correlation-id", b"").decode()}
        wait = headers.get(b"retry-after", b"")
        if entry["status"] == 429 and wait.isdigit():
            tenant = _tenant(scope, entry)
            self._until[tenant] = max(self._clock() + int(wait), self._until.get(tenant, 0.0))

    async def clear(self) -> None:
        """Forget all requests, but not the cooldowns."""
        self.entries.clear()
        self.early = 0

    async def shown(self) -> list[Entry]:
        """Return all requests."""
        return self.entries

    async def stats(self) -> dict[str, Any]:
        """Return counts."""
        counts: dict[str, Counter[str]] = {ACCOUNTS: Counter(), MEDIA: Counter()}
        for entry in self.entries:
            counts[entry["operation"]][str(entry["status"])] += 1
        return {"total": len(self.entries), "counts": counts, "early_requests": self.early}


def _tenant(scope: Scope, entry: Entry) -> tuple[object, str | None]:
    return dict(scope["headers"]).get(b"authorization"), entry["account_id"]
