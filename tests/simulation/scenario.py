"""Scenarios: days as data, generated from one seed before the simulation."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from typing import Literal

from connectors.sandbox.contract import ERRORS
from connectors.sandbox.settings import RateLimit
from models.incremental import SyncMode
from tests.api.faults import MALFORMED, TAMPERINGS, Action, Rule
from tests.api.feeds import ORDERS, PLAIN_FEED, FeedSettings
from tests.api.shapes import SHAPES
from tests.simulation.crashes import Crash

# Errors that stop the whole run are rare, because a day that ends at its first request tests little.
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
Upkeep = Literal["compact", "rebuild"]
_HOURS = (0.01, 0.5, 3.0, 13.0, 24.0, 24.0, 24.0, 24.0, 60.0)


@dataclass(frozen=True, slots=True)
class World:
    """The size and kind of the sandbox's data."""

    seed: int
    accounts: int
    posts: int
    stories: int
    change_every: int
    shape: str
    feed: FeedSettings = PLAIN_FEED


@dataclass(frozen=True, slots=True)
class Day:
    """One process: the hours since the last one, its faults, and where it is killed, if it is.

    `advance` is by how many days the sandbox advances before it; at the requests `day_changes`, it advances during it.
    `key_limit` is that of a gateway in front of it for all requests, which refuses with `key_status`. After it, the
    warehouse may be compacted or rebuilt, with a crash during that.
    """

    hours: float = 24.0
    advance: int = 1
    faults: tuple[Rule, ...] = ()
    day_changes: tuple[int, ...] = ()
    catalogue_limit: RateLimit | None = None
    account_limit: RateLimit | None = None
    key_limit: RateLimit | None = None
    key_status: int = 429
    forgets_cursors: bool = False
    crash: Crash | None = None
    page_size: int = 3
    concurrency: int = 4
    max_wait: float = 3600.0
    latency: float = 0.2
    merge_bytes: int = 16 * 1024 * 1024
    backfill: bool = False
    mode: SyncMode = "full_refresh"
    max_requests: int | None = None
    upkeep: Upkeep | None = None
    upkeep_crash: Crash | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world and its days; `seed` also determines all random choices of the simulation."""

    seed: int
    world: World
    days: tuple[Day, ...]

    def message(self) -> str:
        """Return the scenario in a readable form."""
        lines = [f"seed {self.seed}: {_format(self.world)}"]
        lines += [f"  day {number}: {_format(day)}" for number, day in enumerate(self.days)]
        return "\n".join(lines)


def _format(value: object) -> str:
    """Format a frozen dataclass without the fields that have their default."""
    if isinstance(value, tuple):
        return f"[{', '.join(_format(one) for one in value)}]"
    if not is_dataclass(value):
        return repr(str(value) if isinstance(value, str) else value)
    parts = [
        f"{one.name}={_format(inner)}" for one in fields(value) if (inner := getattr(value, one.name)) != one.default
    ]
    return f"{type(value).__name__}({', '.join(parts)})"


def _error(random: Random) -> Action:
    code = random.choice(_STOPS) if random.random() < 0.06 else random.choice((*_OTHERS, *["rate_limited"] * 6))
    wait = random.choice(_WAITS) if code == "rate_limited" or random.random() < 0.2 else None
    return Action("error", code=code, retry_after=wait, correlated=random.random() < 0.9)


def _unknown_error(random: Random) -> Action:
    status = random.choice((402, 404, 408, 409, 418, 422, 425, 429, 500, 502, 503, 504, 599))
    return Action("error", code="api_new_thing", status=status, retry_after=random.choice((False, False, 2)))


def _simple(kind: str) -> Callable[[Random], Action]:
    return lambda _: Action(kind)


_ACTIONS: tuple[Callable[[Random], Action], ...] = (
    *[_error] * 12,
    *[_unknown_error] * 3,
    lambda random: Action("delay", seconds=random.choice((0.5, 20.0, 110.0, 130.0))),
    lambda random: Action("malformed_account", variant=random.choice(tuple(MALFORMED))),
    lambda _: Action("oversize", size=400_000),
    *(
        _simple(kind)
        for kind in (
            "html_502", "plain_text", "cut", "cut", "reset", "reset", "redirect", "refuse_cursor", "refuse_cursor",
            "forget_cursors", "forget_cursors", *(name for name in TAMPERINGS if name != "malformed_account"),
        )
    ),
)  # fmt: skip


def _rule(random: Random) -> Rule:
    rule = Rule(
        random.choice(_ACTIONS)(random),
        operation=random.choice(("accounts", "media", "media", "any")),
        surface=None,
        first_page=random.choice((None, None, None, True, False)),
        times=random.choice((1, 1, 1, 2, 3, 7, None)),
    )
    if rule.action.kind == "empty_page":
        # Each empty page leads to another: without a limit, the scan would continue until cursors repeat.
        rule = replace(rule, times=3)
    if rule.operation == "media" and random.random() < 0.4:
        rule = replace(rule, surface=random.choice(("posts", "stories")))
    match random.randrange(3):
        case 0:
            return replace(rule, nth=random.randint(1, 4))
        case 1:
            return replace(rule, every=random.randint(1, 3))
        case _:
            return replace(rule, probability=random.choice((0.1, 0.3, 0.7)))


def _crash(random: Random) -> Crash:
    where = random.choice(("step", "step", "statement", "statement", "before commit", "after commit"))
    match where:
        case "step":
            return Crash("step", int(random.expovariate(1 / 250)) + 1)
        case "statement":
            return Crash("statement", random.randint(1, 420))
        case "before commit":
            return Crash("before commit", random.randint(1, 25))
        case _:
            return Crash("after commit", random.randint(1, 25))


def _day(random: Random) -> Day:
    stormy = random.random() < 0.75
    return Day(
        hours=random.choice(_HOURS),
        advance=random.choice((0, 1, 1, 1, 2)),
        faults=tuple(_rule(random) for _ in range(random.choice((1, 1, 2, 3, 5)))) if stormy else (),
        day_changes=tuple(random.randint(2, 20) for _ in range(random.choice((0, 0, 0, 1, 2)))),
        catalogue_limit=RateLimit(random.randint(1, 3), random.choice((2.0, 50.0, 2000.0)))
        if random.random() < 0.1
        else None,
        account_limit=RateLimit(random.randint(1, 4), random.choice((2.0, 50.0, 2000.0)))
        if random.random() < 0.15
        else None,
        forgets_cursors=random.random() < 0.1,
        crash=_crash(random) if random.random() < 0.5 else None,
        page_size=random.choice((1, 2, 2, 3, 3, 50)),
        concurrency=random.choice((1, 2, 4)),
        max_wait=random.choice((0.0, 20.0, 3600.0, 3600.0, 200_000.0)),
        latency=random.choice((0.0, 0.05, 1.0, 20.0)),
        merge_bytes=2_000 if random.random() < 0.1 else 16 << 20,
        backfill=random.random() < 0.12,
    )


def generate_scenario(seed: int, days: int = 8) -> Scenario:
    """Generate the scenario of a seed."""
    random = Random(f"gramhouse simulation {seed}")
    accounts = random.randint(1, 4)
    world = World(
        seed=random.randrange(1 << 20),
        accounts=accounts,
        posts=random.choice((0, 2, 4, 4, 8)),
        stories=random.choice((0, 1, 1, 2)),
        change_every=random.choice((0, max(1, accounts), max(2, accounts))),
        shape=random.choice((*SHAPES, "graph", "mixed")),
    )
    scenario = Scenario(seed, world, tuple(_day(random) for _ in range(days)))
    if seed % 5 == 4:
        scenario = replace(
            scenario,
            days=tuple(
                _with_key_limit(Random(f"gramhouse key {seed} {number}"), day)
                for number, day in enumerate(scenario.days)
            ),
        )
    scenario = _with_recent_scans(scenario) if seed % 2 else scenario
    return replace(scenario, days=tuple(_with_upkeep(seed, *day) for day in enumerate(scenario.days)))


def _with_upkeep(seed: int, number: int, day: Day) -> Day:
    """Add a compaction or a rebuild to some days."""
    random = Random(f"gramhouse upkeep {seed} {number}")
    if random.random() < 0.75:
        return day
    crash = Crash(
        random.choice(("statement", "statement", "before commit", "after commit")),
        int(random.expovariate(1 / 30)) + 1,
        dies=random.random() < 0.7,
    )
    return replace(day, upkeep=random.choice(("compact", "rebuild")), upkeep_crash=random.choice((None, crash)))


def _with_key_limit(random: Random, day: Day) -> Day:
    """Add a limit of the whole key to two of three days."""
    if random.random() < 1 / 3:
        return day
    limit = RateLimit(random.randint(1, 6), random.choice((0.5, 2.0, 10.0, 70.0)))
    return replace(day, key_limit=limit, key_status=random.choice((429, 503)))


def _with_recent_scans(scenario: Scenario) -> Scenario:
    """Add longer feeds of every kind and incremental days, some without faults, because only finished scans count."""
    random = Random(f"gramhouse recent scans {scenario.seed}")
    feed = FeedSettings(
        "newest_first" if random.random() < 0.8 else random.choice(ORDERS),
        random.choice((0, 0, 0, 1, 2, 3, 3, 3, 4, 5)),
        pins_twice=random.random() < 0.3,
        archived=random.choice((0, 0, 5)),
        back_dated=random.choice((0, 0, 7)),
        post_dated=random.choice((0, 0, 0, 0, 9)),
        ties=random.choice((0, 0, 3)),
    )
    world = replace(
        scenario.world,
        accounts=min(scenario.world.accounts, 2),
        posts=random.choice((20, 20, 40)),
        change_every=random.choice((0, 0, 2)),
        # Other shapes have items without a time, which break the order of a feed.
        shape=random.choice(("graph", "mixed", "camel", scenario.world.shape)),
        feed=feed,
    )
    return replace(scenario, world=world, days=tuple(_incremental(random, day) for day in scenario.days))


def _incremental(random: Random, day: Day) -> Day:
    day = replace(
        day,
        hours=random.choice((24.0, 24.0, 24.0, day.hours)),
        advance=random.choice((1, 1, 1, day.advance)),
        page_size=random.choice((3, 4, 5)),
        mode="full_refresh" if random.random() < 0.1 else "incremental",
        max_requests=random.randint(2, 30) if random.random() < 0.1 else None,
    )
    if random.random() < 0.6:
        day = replace(day, faults=(), day_changes=(), crash=None, catalogue_limit=None, account_limit=None)
    return day
