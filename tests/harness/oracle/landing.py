"""What a landed page changes: its items, what is rejected, and the end of its scan."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from tests.harness.oracle.reading import Item, content, id_of, is_item, published
from tests.harness.oracle.tables import CATALOGUE, Accounts, Media, Partition, Scan

_ACCOUNT = {
    "id": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "ig_username": re.compile(r"[A-Za-z0-9._]{1,30}"),
    "public_id": re.compile(r"[A-Za-z0-9]{12,16}"),
    "status": re.compile(r".*"),
}


# The first posts of a scan may be pinned.
_PINS = 3


def shown(body: bytes) -> str:
    """Return bytes as quarantine shows them."""
    return body.decode("utf-8", "backslashreplace")


@lru_cache(maxsize=4096)
def parsed(body: bytes) -> Item:
    """Parse the page in a response body; what is no character in it is U+FFFD."""
    return _whole(json.loads(body.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")))  # type: ignore[no-any-return]


def _whole(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(_whole, value)]
    return re.sub("[\ud800-\udfff]", "\ufffd", value) if isinstance(value, str) else value


def is_account(item: object) -> bool:
    """Return whether a record is an account (API 2), whatever its status."""
    return isinstance(item, dict) and all(
        isinstance(item.get(name), str) and pattern.fullmatch(item[name]) for name, pattern in _ACCOUNT.items()
    )


@dataclass
class Warehouse:
    """The state after all landed pages, in the order of landing. `counts` are those of each process.

    `pages` are the bodies of pages that landed, by the time of arrival. `lacks_many`: as the last run ended, so much
    was missing that a person should look.
    """

    accounts: Accounts = field(default_factory=Accounts)
    media: Media = field(default_factory=Media)
    lacks_many: bool = False
    landed: int = 0
    quarantine: dict[tuple[Partition, str], str] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    pages: dict[datetime, list[bytes]] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    def kept(self, items: Sequence[Any]) -> list[Any]:
        """Return a page's records without those of forgotten accounts, which are removed before it lands."""
        return [item for item in items if not (isinstance(item, dict) and item.get("id") in self.forgotten)]

    def land(
        self, process: int, scan: Scan, partition: Partition, body: bytes, at: datetime, *, has_cursor: bool = True
    ) -> None:
        """Land a page that a process received at time `at`; with the last page, the scan is closed."""
        self.landed += 1
        scan.began = scan.began or self.landed
        self.pages.setdefault(at, []).append(body)
        page, count = parsed(body), self.counts.setdefault(process, Counter())
        items = self.kept(page["items"])
        count.update(pages=1, items=len(items))
        for item in items:
            scan.items += 1
            if partition == CATALOGUE:
                self._account(scan, item, at)
            else:
                self._item(scan, partition, item, at, count)
        if not has_cursor or not (page.get("next_cursor") is None or scan.recent):
            return
        # A scan that rejected most records has seen too little: it is abandoned instead.
        if 2 * scan.rejected > scan.items:
            scan.abandoned = True
            return
        scan.closed, scan.ended_in = True, process
        # A scan decides nothing if another one was closed since it began.
        if self.media.ended.get(partition, 0) <= scan.began:
            if partition == CATALOGUE:
                self.accounts.end(scan, at)
            count["expired"] += self.media.end(partition, self.landed, scan, at)

    def end_run(self, process: int, *, accepts: bool, lists: bool) -> None:
        """Remove what two scans missed; `lists`: the run lists the catalogue."""
        count = self.counts.setdefault(process, Counter())
        ended_at, _ = self.media.closed.get(CATALOGUE, (None, None))
        removed, self.lacks_many = self.media.remove(accepts=accepts)
        count["removed"] += removed
        count["accounts_removed"] += self.accounts.remove(ended_at, accepts=accepts)
        self.lacks_many |= (lists and self.accounts.lacks_many) or self.media.contradicts_itself

    def _account(self, scan: Scan, item: Any, at: datetime) -> None:  # noqa: ANN401 - any JSON
        scan.rejected += not is_account(item)
        if is_account(item):
            known = self.accounts.rows.get(item["id"])
            if known and known.seen >= scan.began and known.status != item["status"]:
                self.media.contradictions.append((CATALOGUE, self.landed))
            self.accounts.see(item["id"], item, scan, self.landed, at)
            return
        self._reject(CATALOGUE, item)
        account_id = item.get("id") if isinstance(item, dict) else None
        if not (isinstance(account_id, str) and _ACCOUNT["id"].fullmatch(account_id)):
            scan.decides = False
        elif (known := self.accounts.rows.get(account_id)) is not None:
            # A malformed record of a known account counts as that account.
            self.accounts.see(account_id, vars(known), scan, self.landed, at)

    def _item(self, scan: Scan, partition: Partition, item: Item, at: datetime, count: Counter[str]) -> None:
        media_id = id_of(item)
        if media_id is None or not is_item(item):
            scan.rejected += 1
            scan.decides = False
            self._reject(partition, item)
            return
        key = (*partition, media_id)
        if scan.items > _PINS and (when := published(item)):
            scan.read_to = min(when, scan.read_to or when)
        count.update(self.media.see(key, item, scan, self.landed, at))

    def forget(self, account: str) -> None:
        """Erase an account. The counts of runs stay."""
        accounts, media = self.accounts, self.media
        self.forgotten.add(account)
        accounts.rows.pop(account, None)
        accounts.periods = [each for each in accounts.periods if each[0] != account]
        for name in ("rows", "closed", "began", "ended", "undecided"):
            setattr(media, name, {key: each for key, each in getattr(media, name).items() if key[0] != account})
        media.superseded = [each for each in media.superseded if each[0][0] != account]
        media.changes = [each for each in media.changes if each[0][0] != account]

    def _reject(self, partition: Partition, item: Any) -> None:  # noqa: ANN401 - any JSON
        """Put a record into quarantine, unless it is there already: an item by its content, if that can be read."""
        is_known_by_content = partition != CATALOGUE and is_item(item)
        text = json.dumps(item, sort_keys=True)
        self.quarantine.setdefault((partition, content(item) if is_known_by_content else text), text)
