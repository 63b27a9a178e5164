"""A synthetic API: the accounts and posts that exist on a given day, as JSON pages in bytes.

Items are formatted from prepared templates, so that a page costs the server only microseconds: the client is measured,
not the server. `Change` is what differs from one day (`day`, from 0) to the next; `Style` is the format of the items.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from random import Random

PAGE_SIZE = 50

_TEMPLATES = 997
_KEYS = 50
_TEXT = (
    "light morning coast salt paper window garden slow river first again winter blue market table bread summer "
    "north quiet street colour shadow orange train letter small glass stone early studio Köln señor 光 ☀️"
)
_WORDS = _TEXT.split()
_KINDS = ("IMAGE", "IMAGE", "VIDEO", "IMAGE", "CAROUSEL_ALBUM", "IMAGE", "VIDEO", "IMAGE", "IMAGE", "IMAGE")

# Placeholders, longer than any other number of an item. Their replacements have the same width.
_ID, _LIKES, _OWNER, _SIGNATURE = "70000000000000001", 900001, "80000000001", "5160000000000000"


class Style(StrEnum):
    """The format of items.

    `compact`: JSON of 480 bytes. `spaced`: 560 bytes with spaces, and children in a third of the items. `keys`:
    compact, with an object of 50 keys that no other item has.
    """

    COMPACT = "compact"
    SPACED = "spaced"
    KEYS = "keys"


class Change(StrEnum):
    """What changes each day: 1 % of the counts and 2 % new posts, every URL's signature, or every count."""

    DAILY = "daily"
    URLS = "urls"
    COUNTS = "counts"


def _template(random: Random, number: int, style: Style) -> bytes:
    spaced = style is Style.SPACED
    caption = " ".join(random.choice(_WORDS) for _ in range(18))
    kind = _KINDS[number % len(_KINDS)]
    if spaced:
        kind = "CAROUSEL_ALBUM" if number % 3 == 0 else "IMAGE"
    item: dict[str, object] = {
        "id": _ID,
        "caption": caption,
        "media_type": kind,
        "media_url": f"https://cdn.example/{_ID}.jpg?sig={_SIGNATURE}{random.getrandbits(32):08x}",
        "permalink": f"https://photos.example/p/{_ID}/",
        "timestamp": f"2026-{random.randint(1, 9):02}-{random.randint(1, 28):02}T{random.randint(10, 23)}:30:00+0000",
        "owner": {"id": _OWNER, "username": f"name.{number}"},
        "like_count": _LIKES,
        "comments_count": random.randint(0, 99),
        "is_comment_enabled": random.random() < 0.9,
    }
    if kind == "CAROUSEL_ALBUM":
        item["children"] = {"data": [{"id": f"{_ID}{index}", "media_type": "IMAGE"} for index in range(1, 4)]}
    if style is Style.KEYS:
        item["reactions"] = {f"{_ID}{index:02}": index for index in range(_KEYS)}
    text = json.dumps(item, ensure_ascii=False, separators=None if spaced else (",", ":")).replace("%", "%%")
    text = text.replace(_ID, "%(id)b").replace(str(_LIKES), "%(likes)d").replace(_OWNER, "%(owner)b")
    return text.replace(_SIGNATURE, "%(signature)016x").encode()


@dataclass(frozen=True)
class SyntheticApi:
    """`accounts` accounts with `posts` posts each on day 0, as they are on day `day`."""

    accounts: int
    posts: int
    day: int = 0
    style: Style = Style.COMPACT
    change: Change = Change.DAILY

    @cached_property
    def _templates(self) -> list[bytes]:
        random = Random(1)
        return [_template(random, number, self.style) for number in range(_TEMPLATES)]

    def post_count(self, account: int) -> int:
        """Return how many posts an account has on this day; with Change.DAILY, each day adds 2 %."""
        added = self.posts * self.day * 2 if self.change is Change.DAILY else 0
        return self.posts + added // 100 + ((account * 37) % 100 < added % 100)

    def catalogue(self, cursor: str | None) -> bytes | None:
        """Return a page of accounts; None if the cursor is invalid."""
        first = _offset(cursor)
        if first is None or first >= max(1, self.accounts):
            return None
        last = min(first + PAGE_SIZE, self.accounts)
        items = [
            {"id": account_id(n), "ig_username": f"name.{n}", "public_id": f"p{n:011}", "status": "active"}
            for n in range(first, last)
        ]
        return json.dumps({"items": items, "next_cursor": f"p{last}" if last < self.accounts else None}).encode()

    def media(self, account: int, cursor: str | None) -> bytes | None:
        """Return a page of an account's posts, newest first; None if the account or the cursor is invalid."""
        total = self.post_count(account)
        first = _offset(cursor)
        if first is None or account >= self.accounts or (first and first >= total):
            return None
        last = min(first + PAGE_SIZE, total)
        templates, day = self._templates, self.day
        signature = 1 + day * (self.change is Change.URLS)
        owner = b"8%010d" % account
        separator = b", " if self.style is Style.SPACED else b","
        items = separator.join(
            templates[(seq * 31 + account) % _TEMPLATES]
            % {
                b"id": b"7%07d%09d" % (account, seq),
                b"owner": owner,
                b"likes": 100000 + seq % 997 + self._added_likes(account, seq),
                b"signature": signature,
            }
            for seq in range(total - 1 - first, total - 1 - last, -1)
        )
        next_cursor = b'"p%d"' % last if last < total else b"null"
        return b'{"items":[%b],"next_cursor":%b}' % (items, next_cursor)

    def _added_likes(self, account: int, seq: int) -> int:
        match self.change:
            case Change.DAILY:
                return int((seq * 61 + account * 17) % 100 < self.day)
            case Change.COUNTS:
                return self.day
            case Change.URLS:
                return 0


def _offset(cursor: str | None) -> int | None:
    if cursor is None:
        return 0
    return int(cursor[1:]) if cursor[:1] == "p" and cursor[1:].isdecimal() else None


def account_id(number: int) -> str:
    """Return the id of an account."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"
