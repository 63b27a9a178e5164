"""A story: days as data, all of it drawn from one seed before anything is played."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from typing import Literal

from connectors.sandbox.contract import ERRORS
from connectors.sandbox.faults.rules import Action, Rule
from connectors.sandbox.faults.tampering import MALFORMED, TAMPERINGS
from connectors.sandbox.settings import ORDERS, PLAIN_FEED, SHAPES, FeedSettings, RateLimit
from models.incremental import SyncMode
from tests.simulation.crashes import Crash

# What ends a whole run comes seldom: a day that is over at its first request shows little.
_STOPS = (
    "api_unauthorized",
    "api_scope_denied",
    "api_invalid_json",
    "api_body_too_large",
    "api_unsupported_media_type",
)
_OTHERS = tuple(code for code in ERRORS if code not in _STOPS)
_DATE = "Sun, 02 Mar 2025 07:28:00 GMT"
_WAITS: tuple[int | str | Literal[False], ...] = (False, 1, 1, 5, 30, 30, 400, 4000, 90_000, _DATE, "soon", 0)
_HOURS = (0.01, 0.5, 3.0, 13.0, 24.0, 24.0, 24.0, 24.0, 60.0)


@dataclass(frozen=True, slots=True)
class World:
    """What the service holds."""

    seed: int
    accounts: int
    posts: int
    stories: int
    change_every: int
    shape: str
    feed: FeedSettings = PLAIN_FEED


@dataclass(frozen=True, slots=True)
class Day:
    """One process: when it begins after the last one, what befalls it, and where it dies, if it does.

    `advance` is by how many days the service moved on meanwhile, `turns` at which requests it does so amid the run.
    """

    hours: float = 24.0
    advance: int = 1
    faults: tuple[Rule, ...] = ()
    turns: tuple[int, ...] = ()
    catalogue_limit: RateLimit | None = None
    account_limit: RateLimit | None = None
    forgets_cursors: bool = False
    crash: Crash | None = None
    page_size: int = 3
    places: int = 4
    max_wait: float = 3600.0
    latency: float = 0.2
    merge_bytes: int = 16 * 1024 * 1024
    backfill: bool = False
    mode: SyncMode = "full_refresh"
    max_requests: int | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """A world and its days; `seed` also draws everything that happens while it is played."""

    seed: int
    world: World
    days: tuple[Day, ...]

    def message(self) -> str:
        """Return the story for a person."""
        lines = [f"seed {self.seed}: {_message(self.world)}"]
        lines += [f"  day {number}: {_message(day)}" for number, day in enumerate(self.days)]
        return "\n".join(lines)


def _message(message: object) -> str:
    """What is said in a frozen value, but for what is as ever."""
    if isinstance(message, tuple):
        return f"[{', '.join(_message(one) for one in message)}]"
    if not is_dataclass(message):
        return repr(str(message) if isinstance(message, str) else message)
    parts = [
        f"{one.name}={_message(value)}"
        for one in fields(message)
        if (value := getattr(message, one.name)) != one.default
    ]
    return f"{type(message).__name__}({', '.join(parts)})"


def _error(draw: Random) -> Action:
    code = draw.choice(_STOPS) if draw.random() < 0.06 else draw.choice((*_OTHERS, *["rate_limited"] * 6))
    wait = draw.choice(_WAITS) if code == "rate_limited" or draw.random() < 0.2 else None
    return Action("error", code=code, retry_after=wait, correlated=draw.random() < 0.9)


def _unheard_of(draw: Random) -> Action:
    status = draw.choice((402, 404, 408, 409, 418, 422, 425, 429, 500, 502, 503, 504, 599))
    return Action("error", code="api_new_thing", status=status, retry_after=draw.choice((False, False, 2)))


def _simple(kind: str) -> Callable[[Random], Action]:
    return lambda _: Action(kind)


_ACTIONS: tuple[Callable[[Random], Action], ...] = (
    *[_error] * 12,
    *[_unheard_of] * 3,
    lambda draw: Action("delay", seconds=draw.choice((0.5, 20.0, 110.0, 130.0))),
    lambda draw: Action("malformed_account", variant=draw.choice(tuple(MALFORMED))),
    lambda _: Action("oversize", size=400_000),
    *(
        _simple(kind)
        for kind in (
            "html_502", "plain_text", "cut", "cut", "reset", "reset", "redirect", "refuse_cursor", "refuse_cursor",
            "forget_cursors", "forget_cursors", *(name for name in TAMPERINGS if name != "malformed_account"),
        )
    ),
)  # fmt: skip


def _rule(draw: Random) -> Rule:
    rule = Rule(
        draw.choice(_ACTIONS)(draw),
        operation=draw.choice(("accounts", "media", "media", "any")),
        surface=None,
        first_page=draw.choice((None, None, None, True, False)),
        times=draw.choice((1, 1, 1, 2, 3, 7, None)),
    )
    if rule.action.kind == "empty_page":
        # Each leads to another: without a bound the scan would go on until the cursors have gone round.
        rule = replace(rule, times=3)
    if rule.operation == "media" and draw.random() < 0.4:
        rule = replace(rule, surface=draw.choice(("posts", "stories")))
    match draw.randrange(3):
        case 0:
            return replace(rule, nth=draw.randint(1, 4))
        case 1:
            return replace(rule, every=draw.randint(1, 3))
        case _:
            return replace(rule, probability=draw.choice((0.1, 0.3, 0.7)))


def _crash(draw: Random) -> Crash:
    where = draw.choice(("step", "step", "statement", "statement", "before commit", "after commit"))
    match where:
        case "step":
            return Crash("step", int(draw.expovariate(1 / 250)) + 1)
        case "statement":
            return Crash("statement", draw.randint(1, 420))
        case "before commit":
            return Crash("before commit", draw.randint(1, 25))
        case _:
            return Crash("after commit", draw.randint(1, 25))


def _day(draw: Random) -> Day:
    stormy = draw.random() < 0.75
    return Day(
        hours=draw.choice(_HOURS),
        advance=draw.choice((0, 1, 1, 1, 2)),
        faults=tuple(_rule(draw) for _ in range(draw.choice((1, 1, 2, 3, 5)))) if stormy else (),
        turns=tuple(draw.randint(2, 20) for _ in range(draw.choice((0, 0, 0, 1, 2)))),
        catalogue_limit=RateLimit(draw.randint(1, 3), draw.choice((2.0, 50.0, 2000.0)))
        if draw.random() < 0.1
        else None,
        account_limit=RateLimit(draw.randint(1, 4), draw.choice((2.0, 50.0, 2000.0))) if draw.random() < 0.15 else None,
        forgets_cursors=draw.random() < 0.1,
        crash=_crash(draw) if draw.random() < 0.5 else None,
        page_size=draw.choice((1, 2, 2, 3, 3, 50)),
        places=draw.choice((1, 2, 4)),
        max_wait=draw.choice((0.0, 20.0, 3600.0, 3600.0, 200_000.0)),
        latency=draw.choice((0.0, 0.05, 1.0, 20.0)),
        merge_bytes=2_000 if draw.random() < 0.1 else 16 << 20,
        backfill=draw.random() < 0.12,
    )


def tell(seed: int, days: int = 8) -> Story:
    """Return the story of a seed."""
    draw = Random(f"gramhouse simulation {seed}")
    accounts = draw.randint(1, 4)
    world = World(
        seed=draw.randrange(1 << 20),
        accounts=accounts,
        posts=draw.choice((0, 2, 4, 4, 8)),
        stories=draw.choice((0, 1, 1, 2)),
        change_every=draw.choice((0, max(1, accounts), max(2, accounts))),
        shape=draw.choice((*SHAPES, "graph", "mixed")),
    )
    story = Story(seed, world, tuple(_day(draw) for _ in range(days)))
    return _with_recent_scans(story) if seed % 2 else story


def _with_recent_scans(story: Story) -> Story:
    """Longer feeds of every kind, and incremental days; some of them calm, for scans must end to be recent."""
    draw = Random(f"gramhouse recent scans {story.seed}")
    feed = FeedSettings(
        "newest_first" if draw.random() < 0.8 else draw.choice(ORDERS),
        draw.choice((0, 0, 0, 1, 2, 3, 3, 3, 4, 5)),
        pins_twice=draw.random() < 0.3,
        archived=draw.choice((0, 0, 5)),
        back_dated=draw.choice((0, 0, 7)),
        post_dated=draw.choice((0, 0, 0, 0, 9)),
        ties=draw.choice((0, 0, 3)),
    )
    world = replace(
        story.world,
        accounts=min(story.world.accounts, 2),
        posts=draw.choice((20, 20, 40)),
        change_every=draw.choice((0, 0, 2)),
        # An item without a time, of which there are some in other shapes, proves that there is no order.
        shape=draw.choice(("graph", "mixed", "camel", story.world.shape)),
        feed=feed,
    )
    return replace(story, world=world, days=tuple(_incremental(draw, day) for day in story.days))


def _incremental(draw: Random, day: Day) -> Day:
    day = replace(
        day,
        hours=draw.choice((24.0, 24.0, 24.0, day.hours)),
        advance=draw.choice((1, 1, 1, day.advance)),
        page_size=draw.choice((3, 4, 5)),
        mode="full_refresh" if draw.random() < 0.1 else "incremental",
        max_requests=draw.randint(2, 30) if draw.random() < 0.1 else None,
    )
    if draw.random() < 0.6:
        day = replace(day, faults=(), turns=(), crash=None, catalogue_limit=None, account_limit=None)
    return day
