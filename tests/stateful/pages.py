"""Hypothesis strategies for pages: few ids, so that items occur again, changed or not, also twice in a page."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from hypothesis import strategies as st

from models.checkpoint import RunKind
from models.incremental import SyncMode
from models.partition import CATALOGUE, Partition, media

Item = dict[str, Any]
After = Literal["continues", "ends", "is abandoned"]

IDS = ("a", "b", "c")
POSTS = media("a", "posts")
PARTITIONS = (POSTS, media("a", "stories"), media("b", "posts"), CATALOGUE)
# This account's posts are always listed newest first, from FakeFeed; other pages would break the order.
FEED = media("c", "posts")
RUN_KINDS: tuple[RunKind, ...] = ("sync", "sync", "sync", "sync", "sync", "backfill")

# Values of every type, for a field whose type changes.
DRIFTING: tuple[object, ...] = (
    None, 7, 8, 0.5, True, "seven", "2026-01-01T00:00:00Z", 2**70, {"n": 7}, {"n": "seven"}, [], [1], ["a"],
    [{"n": 7}], [1, {"n": 7}],
)  # fmt: skip

# Children that change places, and pairs of equal ones.
_PICTURE, _VIDEO = {"media_type": "IMAGE"}, {"media_type": "VIDEO"}
CHILDREN: tuple[list[Item], ...] = ([], [_PICTURE, _VIDEO], [_VIDEO, _PICTURE], [_PICTURE, _PICTURE], [_VIDEO, _VIDEO])

# Records without a valid id, which go to quarantine.
WITHOUT_ID: tuple[object, ...] = ({"caption": "no id"}, {"id": ""}, {"id": None}, {"id": {"n": 1}}, None, "text", 7)


@dataclass(frozen=True)
class Page:
    """A page to land, and the state of its scan after it; `leads_to` is its next cursor, generated if None."""

    partition: Partition
    run_kind: RunKind
    items: tuple[Any, ...]
    after: After
    mode: SyncMode = "full_refresh"
    leads_to: str | None = None


# Keys are sorted, because an item with another order of keys would be another version.
_ITEMS = st.fixed_dictionaries(
    {"id": st.sampled_from(("1", "2", "3", "4", 4)), "caption": st.sampled_from(("v1", "v1", "v2"))},
    optional={
        "like_count": st.sampled_from((None, 5, 6, "6")),
        "url": st.sampled_from(("https://x/?oe=1", "https://x/?oe=2", "https://x/y?oe=2")),
        "timestamp": st.sampled_from(("2026-02-28T12:00:00+00:00", "2026-03-02T12:00:00+00:00")),
        "extra": st.sampled_from(DRIFTING),
        "children": st.sampled_from(CHILDREN),
    },
).map(lambda item: dict(sorted(item.items())))

_ACCOUNTS = st.builds(
    lambda one, name, status: {"id": one, "ig_username": name, "public_id": f"public-{one}", "status": status},
    st.sampled_from(IDS),
    st.sampled_from(("anna", "ben")),
    st.sampled_from(("active", "active", "token_expired")),
)

# Most items are unchanged, as on most days.
_PLAIN = st.sampled_from([{"caption": "v1", "id": one, "like_count": 5} for one in ("1", "2", "3", "4", "5")])

_MEDIA = st.one_of(*[_PLAIN] * 7, *[_ITEMS] * 4, st.sampled_from(WITHOUT_ID))


_AFTER: tuple[After, ...] = ("continues", "continues", "continues", "ends", "ends", "ends", "ends", "is abandoned")


@st.composite
def _pages(draw: st.DrawFn) -> Page:
    where = draw(st.sampled_from(PARTITIONS))
    items = draw(st.lists(_ACCOUNTS if where == CATALOGUE else _MEDIA, max_size=5))
    return Page(where, draw(st.sampled_from(RUN_KINDS)), tuple(items), draw(st.sampled_from(_AFTER)))


def batches() -> st.SearchStrategy[list[Page]]:
    """Pages of several scans that arrive at the same time; half of them are the last of their scan."""
    return st.lists(_pages(), min_size=1, max_size=4, unique_by=lambda page: (page.partition, page.run_kind))


@dataclass(frozen=True)
class FeedChange:
    """Changes of a feed: the number of new posts, and the indexes of deleted, edited and pinned posts."""

    added: int
    gone: frozenset[int]
    edited: frozenset[int]
    pins: tuple[int, ...]


def feed_changes() -> st.SearchStrategy[FeedChange]:
    """Mostly a few new posts, sometimes other changes."""
    indexes = st.integers(0, 20)
    few = st.one_of(st.just(frozenset[int]()), st.frozensets(indexes, max_size=3))
    many = st.frozensets(indexes, min_size=10)
    pins = st.one_of(st.just(()), st.lists(indexes, max_size=4, unique=True).map(tuple))
    return st.builds(FeedChange, st.sampled_from((0, 1, 2, 6)), st.one_of(few, few, few, many), few, pins)


class FakeFeed:
    """A feed: pinned posts, then the others newest first. The next cursor is the time of a page's last post.

    If that post is pinned, it is a time after all posts.
    """

    PAGE = 4

    def __init__(self, posts: int, newest: datetime) -> None:
        self._posts: list[Item] = []
        self._pins: list[Item] = []
        self._made = 0
        for day in reversed(range(posts)):
            self._post(newest - timedelta(days=day))

    def _post(self, at: datetime) -> None:
        self._made += 1
        item = {"caption": "v1", "id": f"p{self._made}", "like_count": 5, "timestamp": at.isoformat()}
        self._posts.insert(0, item)

    def change(self, change: FeedChange, now: datetime) -> None:
        """Apply a change at time `now`."""
        for place in range(len(self._posts)):
            if place in change.edited:
                self._posts[place] = {**self._posts[place], "caption": f"v{self._made}"}
        self._posts = [post for place, post in enumerate(self._posts) if place not in change.gone]
        for number in range(change.added):
            self._post(now - timedelta(minutes=change.added - number))
        self._pins = [self._posts[place] for place in change.pins if place < len(self._posts)]

    def page(self, cursor: str | None) -> tuple[tuple[Item, ...], str | None]:
        """Return the page after a cursor, and the next cursor."""
        rest = [post for post in self._posts if post not in self._pins]
        listed = [*self._pins, *rest] if cursor is None else [post for post in rest if post["timestamp"] < cursor]
        items = tuple(listed[: self.PAGE])
        if len(listed) <= self.PAGE:
            return items, None
        return items, "9999" if items[-1] in self._pins else items[-1]["timestamp"]


@st.composite
def days(draw: st.DrawFn) -> list[Page]:
    """The pages of a whole scan, or the remaining pages; always of the same partition, so that items occur again."""
    bodies = draw(st.lists(st.lists(_MEDIA, max_size=4), min_size=1, max_size=3))
    pages = [Page(POSTS, "sync", tuple(items), "continues") for items in bodies]
    return [*pages[:-1], replace(pages[-1], after="ends")]
