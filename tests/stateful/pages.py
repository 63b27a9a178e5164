"""What is served: pages of few ids, so that they meet again, changed or not, twice in a page, and in every shape."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from hypothesis import strategies as st

from models.checkpoint import RunKind
from models.incremental import SyncMode
from models.partition import CATALOGUE, Partition, media

Item = dict[str, Any]
After = Literal["goes on", "ends", "is given up"]

IDS = ("a", "b", "c")
POSTS = media("a", "posts")
PARTITIONS = (POSTS, media("a", "stories"), media("b", "posts"), CATALOGUE)
# Of this account posts are listed newest first: other pages than those of its feed would break the order.
FEED = media("c", "posts")
RUN_KINDS: tuple[RunKind, ...] = ("sync", "sync", "sync", "sync", "sync", "backfill")

# Of every family of types, for a column that meets one after the other.
DRIFTING: tuple[object, ...] = (
    None, 7, 8, 0.5, True, "seven", "2026-01-01T00:00:00Z", 2**70, {"n": 7}, {"n": "seven"}, [], [1], ["a"],
    [{"n": 7}], [1, {"n": 7}],
)  # fmt: skip

# What has no id becomes no row.
NAMELESS: tuple[object, ...] = ({"caption": "no id"}, {"id": ""}, {"id": None}, {"id": {"n": 1}}, None, "text", 7)


@dataclass(frozen=True)
class Page:
    """A page to be landed, and what becomes of its scan after it. It leads to a cursor, if not to one of its own."""

    partition: Partition
    run_kind: RunKind
    items: tuple[Any, ...]
    after: After
    mode: SyncMode = "full_refresh"
    leads_to: str | None = None


# In one order of keys, as a service writes them: in another an item would be another version of itself.
_ITEMS = st.fixed_dictionaries(
    {"id": st.sampled_from(("1", "2", "3", "4", 4)), "caption": st.sampled_from(("v1", "v1", "v2"))},
    optional={
        "like_count": st.sampled_from((None, 5, 6, "6")),
        "url": st.sampled_from(("https://x/?oe=1", "https://x/?oe=2", "https://x/y?oe=2")),
        "timestamp": st.sampled_from(("2026-02-28T12:00:00+00:00", "2026-03-02T12:00:00+00:00")),
        "extra": st.sampled_from(DRIFTING),
    },
).map(lambda item: dict(sorted(item.items())))

_ACCOUNTS = st.builds(
    lambda one, name, status: {"id": one, "ig_username": name, "public_id": f"public-{one}", "status": status},
    st.sampled_from(IDS),
    st.sampled_from(("anna", "ben")),
    st.sampled_from(("active", "active", "token_expired")),
)

# Mostly they are what they were, as on most days.
_PLAIN = st.sampled_from([{"caption": "v1", "id": one, "like_count": 5} for one in ("1", "2", "3", "4", "5")])

_MEDIA = st.one_of(*[_PLAIN] * 7, *[_ITEMS] * 4, st.sampled_from(NAMELESS))


_AFTER: tuple[After, ...] = ("goes on", "goes on", "goes on", "ends", "ends", "ends", "ends", "is given up")


@st.composite
def _pages(draw: st.DrawFn) -> Page:
    where = draw(st.sampled_from(PARTITIONS))
    items = draw(st.lists(_ACCOUNTS if where == CATALOGUE else _MEDIA, max_size=5))
    return Page(where, draw(st.sampled_from(RUN_KINDS)), tuple(items), draw(st.sampled_from(_AFTER)))


def batches() -> st.SearchStrategy[list[Page]]:
    """Pages of several scans, which arrive together; every other one is its scan's last."""
    return st.lists(_pages(), min_size=1, max_size=4, unique_by=lambda page: (page.partition, page.run_kind))


@dataclass(frozen=True)
class News:
    """What happened to a feed: so many new posts, and by their place in the list what is gone, edited or pinned."""

    added: int
    gone: frozenset[int]
    edited: frozenset[int]
    pins: tuple[int, ...]


def news() -> st.SearchStrategy[News]:
    """Mostly a few new posts, and now and then something else."""
    places = st.integers(0, 20)
    few = st.one_of(st.just(frozenset[int]()), st.frozensets(places, max_size=3))
    many = st.frozensets(places, min_size=10)
    pins = st.one_of(st.just(()), st.lists(places, max_size=4, unique=True).map(tuple))
    return st.builds(News, st.sampled_from((0, 1, 2, 6)), st.one_of(few, few, few, many), few, pins)


class Served:
    """A feed as the service lists it, newest first after its pins; a page's cursor is the time of its last post.

    Of a page of pins it is a time that no post has.
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

    def change(self, news: News, now: datetime) -> None:
        """Let something happen, up to `now`."""
        for place in range(len(self._posts)):
            if place in news.edited:
                self._posts[place] = {**self._posts[place], "caption": f"v{self._made}"}
        self._posts = [post for place, post in enumerate(self._posts) if place not in news.gone]
        for number in range(news.added):
            self._post(now - timedelta(minutes=news.added - number))
        self._pins = [self._posts[place] for place in news.pins if place < len(self._posts)]

    def page(self, cursor: str | None) -> tuple[tuple[Item, ...], str | None]:
        """Return the posts that follow a cursor, and the one that leads on, if any follow them."""
        rest = [post for post in self._posts if post not in self._pins]
        listed = [*self._pins, *rest] if cursor is None else [post for post in rest if post["timestamp"] < cursor]
        items = tuple(listed[: self.PAGE])
        if len(listed) <= self.PAGE:
            return items, None
        return items, "9999" if items[-1] in self._pins else items[-1]["timestamp"]


@st.composite
def days(draw: st.DrawFn) -> list[Page]:
    """The pages that are left of one scan, or all of it: always of the same, so that it meets what it saw before."""
    bodies = draw(st.lists(st.lists(_MEDIA, max_size=4), min_size=1, max_size=3))
    pages = [Page(POSTS, "sync", tuple(items), "goes on") for items in bodies]
    return [*pages[:-1], replace(pages[-1], after="ends")]
