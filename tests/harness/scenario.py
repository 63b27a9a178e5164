"""Scenarios: days as data, generated from one seed before anything runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import methodcaller
from random import Random
from typing import Any, Literal, get_args

from connectors.sandbox.contract import ERRORS
from connectors.sandbox.settings import RateLimit, SandboxSettings
from tests.api.faults import Action, Rule, change_page, from_gateway, refuse
from tests.api.odd import ORDERS, PLAIN_FEED, FeedSettings
from tests.harness.points import Crash

# Errors that stop the whole run are rare, because a day that ends at its first request tests little.
_STOPS = (
    "api_unauthorized",
    "api_scope_denied",
    "api_invalid_json",
    "api_body_too_large",
    "api_unsupported_media_type",
)
_STATUSES = (204, 307, 400, 402, 404, 408, 409, 413, 418, 422, 425, 429, 500, 502, 503, 504, 599)
_DATE = "Sun, 02 Mar 2025 07:28:00 GMT"
_WAITS: tuple[int | str | Literal[False], ...] = (False, 1, 1, 5, 30, 30, 400, 4000, 90_000, _DATE, "soon", 0)
_HOURS = (0.01, 0.5, 3.0, 13.0, 24.0, 24.0, 24.0, 24.0, 60.0)
Record = dict[str, Any]
Command = Literal["compact", "rebuild", "publish", "forget"]
Restored = Literal["together", "warehouse", "state", "raw", "all but raw"]


@dataclass(frozen=True, slots=True)
class Upkeep:
    """A command after the run of a day, which may be killed, or have a full disk."""

    command: Command
    crash: Crash | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """A run, `number` of its scenario: the hours since the last one, its faults, and where it is killed, if it is.

    `advance` is by how many days the API advances before it; at the requests `day_changes`, it advances during it.
    `restores` are the files that come from a backup of a day before, in the morning.
    """

    number: int
    hours: float = 24.0
    advance: int = 1
    faults: tuple[Rule, ...] = ()
    day_changes: tuple[int, ...] = ()
    catalogue_limit: RateLimit | None = None
    account_limit: RateLimit | None = None
    crash: Crash | None = None
    page_size: int = 3
    concurrency: int = 4
    max_wait: float = 3600.0
    latency: float = 0.2
    backfill: bool = False
    mode: Literal["full_refresh", "incremental"] = "full_refresh"
    max_requests: int | None = None
    upkeep: tuple[Upkeep, ...] = ()
    restores: Restored | None = None
    accepts_removals: bool = False
    scans_expired: bool = False

    def specials(self) -> dict[str, Any]:
        """Return what differs from a day without faults."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)[1:]}
        return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True, slots=True)
class Scenario:
    """The kind of the API's data, and the days; `seed` also determines all random choices of the simulation."""

    seed: int
    settings: SandboxSettings
    feed: FeedSettings
    drifts: bool
    days: tuple[Day, ...]

    def __str__(self) -> str:
        days = (f"  day {day.number}: {day.specials()}" for day in self.days)
        return "\n".join((f"seed {self.seed}: {self.settings}, {self.feed}, {self.drifts=}", *days))


def list_parts(scenario: Scenario) -> Iterator[str]:
    """Yield what can be left out of a scenario: days, such as `3`, and what is special of one, such as `3.faults`."""
    yield from [f"{day.number}" for day in reversed(scenario.days)]
    for day in scenario.days:
        yield from [f"{day.number}.{name}" for name in day.specials()]


def leave_out(scenario: Scenario, *parts: str) -> Scenario:
    """Return a scenario without these parts. What is left has the same random choices."""
    days, plain = {f"{day.number}": day for day in scenario.days}, Day(0)
    for number, _, name in (part.partition(".") for part in parts):
        if not name:
            days.pop(number, None)
        elif number in days:
            days[number] = replace(days[number], **{name: getattr(plain, name)})
    return replace(scenario, days=tuple(days.values()))


def _add(records: bytes, page: bytes) -> bytes:
    return page.replace(b'{"items":[', b'{"items":[' + records + b",", 1).replace(b",]", b"]", 1)


def _first(change: Callable[[Record], object]) -> Action:
    """Return an action that adds a changed copy of the first record of a page."""
    return change_page(
        lambda page: {
            **page,
            "items": page["items"] + [change(one) for one in page["items"][:1] if isinstance(one, dict)],
        }
    )


# Records whose names and values look like something else.
_HOSTILE = tuple(
    f'{{"id":"hostile {number}",{fields}}}'.encode()
    for number, fields in enumerate(
        (
            '"a":9223372036854775807,"b":9223372036854775808,"c":-9223372036854775809,"d":1e308,"e":-0.0',
            '"f":"a\\u0000b","k\\u0000":1,"\\u0000":{"y":2}',
            '"":{"":[{"":1}]},"*":5,"/x":4,"$.x":3,"~1":6',
            '"Caption":"x","CAPTION":"y","\u0130":1,"i\u0307":2,"\u00df":1,"ss":2',
            '"\'; DROP TABLE core.media; --":1,"x\\" VARCHAR, \\"y":2,"select":true,"order":"by"',
            '"account_id":"x","media_id":[1],"payload":{"a":1},"_seq":"x","rowid":5,"removed_at":"no"',
            '"i":"0000-01-01T00:00:00Z","j":"2026-12-31T23:59:60Z","l":"9999-12-31T23:59:59Z","timestamp":"never","taken_at":1700000000',
            '"g":' + "[" * 150 + "]" * 150 + ',"h":' + '{"a":' * 150 + "1" + "}" * 150,
            '"m":"\u202egpj.exe","n":"<script>","p":"%s{}","q":"NaN","r":"","s":[],"t":{},"u":[null]',
            '"like_count":"99999999999999999999","comments_count":true,"view_count":"007","shares":-1',
        )
    )
)
# Records that are no items, or accounts that are malformed.
_ODD = (
    b'{"id":"odd 1","n":1e400}',
    b'{"id":"odd 2","n":' + b"[" * 250 + b"]" * 250 + b"}",
    b'{"id":1.5e3,"n":1}',
    b'"text",null,{"id":""}',
)
# Records that share an id, and differ in what is content or only in what is none.
_PAIRS = b",".join(
    b'{"id":"pair %d",%s},{"id":"pair %d",%s}' % (number, one, number, other)
    for number, pair in enumerate(
        (
            (b'"a":["x",null,"y"]', b'"a":["x","y"]'),
            (b'"a":[{"b":{"c":1}}]', b'"a":[{"b":{"c":2}}]'),
            (b'"n":1,"o":{"a":2,"b":[{"c":3}]}', b'"o":{"b":[{"c":3.0}],"a":2e0},"n":1.0'),
            (b'"t":"\\u00e9","\\u00e9":1', b'"t":"e\\u0301","e\\u0301":1'),
            (b'"seen_count":1,"u":"https://a/1"', b'"seen_count":"2","u":"https://a/2"'),
            (b'"v":"1.2k","e":null', b'"v":"1.3k","e":[{}]'),
        )
    )
    for one, other in (pair,)
)
_PAGES = (
    # JSON that ends early, one sign that is wrong, a byte order mark, bytes that are not UTF-8, half an emoji.
    *(Action("page", change=methodcaller("replace", *pair, 1)) for pair in (
        (b"next_cursor", b""), (b":", b"{"), (b"{", b"\xef\xbb\xbf{"), (b'"caption":"', b'"caption":"\xc3\x28\xff'),
        (b'_username":"', b'_username":"\xff'), (b'"caption":"', b'"caption":"\\ud83c'),
    )),
    # Records that share an id and differ, or not, and that lack what they must have.
    _first(lambda one: one),
    _first(lambda one: {**one, "timestamp": "2020-01-01T00:00:00+0000", "status": "paused"}),
    _first(lambda one: {**one, "id": None}),
    _first(lambda one: {**one, "id": 17, "status": "paused"}),
    _first(lambda one: {**one, "ig_username": "g" * 31, "caption": None}),
    change_page(lambda page: {"items": page["items"]}),
    change_page(lambda page: {**page, "extra": {"not": "in the contract"}, "next_cursor": page["next_cursor"]}),
)  # fmt: skip


# How often each kind of fault is chosen, and those of the kind.
FAULTS: tuple[tuple[int, Sequence[Action]], ...] = (
    (5, [refuse("rate_limited", wait) for wait in _WAITS]),
    (5, [refuse(code) for code in ERRORS if code not in _STOPS]),
    (1, [refuse(code, wait, correlated=False) for code in ERRORS if code not in _STOPS for wait in _WAITS]),
    (1, [refuse(code) for code in _STOPS]),
    (3, [refuse("api_new_thing", wait, status=status) for status in _STATUSES for wait in (False, False, 2)]),
    (2, [from_gateway(status, body) for status in _STATUSES for body in (b"<h1>Not now</h1>", b"")]),
    (9, _PAGES),
    (3, [Action("page", change=partial(_add, record)) for record in (*_HOSTILE, *_ODD)]),
    # Past the limit of a body, and so large that the run merges before its end.
    (1, [Action("page", change=methodcaller("ljust", size << 20)) for size in (70, 6, 6)]),
    (1, [Action("delay", seconds=seconds) for seconds in (0.5, 20.0, 110.0, 130.0)]),
    (8, [Action("cut"), Action("reset"), refuse("api_invalid_cursor"), Action("forget_cursors")]),
    (2, [change_page(lambda page: {**page, "items": []}), Action("repeat_cursor")]),
    (2, [Action("page", change=partial(_add, _PAIRS))]),
)


def _rule(random: Random) -> Rule:
    [actions] = random.choices([actions for _, actions in FAULTS], [weight for weight, _ in FAULTS])
    action = random.choice(actions)
    operation: Literal["accounts", "media", "any"] = random.choice(("accounts", "media", "media", "any"))
    return Rule(
        action,
        operation,
        surface=random.choice(("posts", "stories", None, None, None)) if operation == "media" else None,
        nth=random.choice((1, 2, 3, 4, None, None, None)),
        probability=random.choice((0.1, 0.3, 0.7, 1.0)),
        times=random.choice((1, 1, 1, 2, 3, 7, None)),
    )


def _crash(random: Random, most: int) -> Crash:
    """Return a kill, in a fifth of all cases where files are exchanged, or a full disk."""
    if random.random() < 0.8:
        # A third of the kills are while a command begins.
        nth = random.randint(1, random.choice((40, most, most)))
        return Crash(nth) if nth % 5 else Crash(nth // 5 % 3 + 1, name=("replace", "rename", "unlink")[nth // 15 % 3])
    return Crash(random.randint(1, most // 3), dies=False, lasts=random.choice((1, 1, 1000)))


def _upkeep(random: Random) -> tuple[Upkeep, ...]:
    if random.random() < 0.7:
        return ()
    commands: tuple[Command, ...] = ("compact", "rebuild", "rebuild", "publish", "forget")
    number = random.choice((1, 1, 2))
    return tuple(Upkeep(random.choice(commands), random.choice((None, _crash(random, 150)))) for _ in range(number))


def _limit(random: Random, share: float, most: int) -> RateLimit | None:
    chosen = RateLimit(random.randint(1, most), random.choice((0.5, 2.0, 10.0, 70.0, 2000.0)))
    return chosen if random.random() < share else None


def _day(random: Random, number: int, *, recent: bool, again: bool) -> Day:
    """Return a day; `recent`: an incremental one of a long feed; `again`: soon after a run that was killed."""
    # Only finished scans make others recent.
    calm, usual = random.random() < (0.7 if recent else 0.25), recent and random.random() < 0.75
    return Day(
        number,
        hours=0.5 if again else 24.0 if usual else random.choice(_HOURS),
        advance=1 if usual else random.choice((0, 1, 1, 1, 2)),
        faults=() if calm else tuple(_rule(random) for _ in range(random.choice((1, 1, 2, 3, 5)))),
        day_changes=() if calm else tuple(random.randint(2, 20) for _ in range(random.choice((0, 0, 0, 1, 2)))),
        catalogue_limit=_limit(random, 0.0 if calm else 0.12, 3),
        account_limit=_limit(random, 0.0 if calm else 0.2, 4),
        crash=_crash(random, 450) if random.random() < (0.3 if recent else 0.5) else None,
        page_size=random.choice((7, 10, 12) if recent else (1, 2, 2, 3, 3, 50)),
        concurrency=random.choice((1, 2, 4)),
        max_wait=random.choice((0.0, 20.0, 3600.0, 3600.0, 200_000.0)),
        latency=random.choice((0.0, 0.05, 1.0, 20.0)),
        backfill=random.random() < 0.12,
        mode="incremental" if recent and random.random() < (0.6 if again else 0.9) else "full_refresh",
        max_requests=random.randint(2, 30) if recent and random.random() < 0.1 else None,
        upkeep=_upkeep(random),
        restores=random.choice(get_args(Restored)) if random.random() < 0.15 else None,
        accepts_removals=random.random() < 0.1,
        scans_expired=random.random() < 0.2,
    )


def generate(seed: int, days: int = 8) -> Scenario:
    """Generate the scenario of a seed. Odd seeds have incremental days."""
    random, recent = Random(f"gramhouse harness {seed}"), seed % 2 == 1
    accounts = random.randint(1, 2 if recent else 4)
    settings = SandboxSettings(
        seed=random.randrange(1 << 20),
        accounts=accounts,
        posts=random.choice((50, 70) if recent else (0, 2, 4, 4, 8)),
        stories=random.choice((0, 1, 1, 2)),
        change_every=random.choice((0, 0, 2) if recent else (0, accounts, max(2, accounts))),
    )
    # Items that drift may have no time, which breaks the order of a feed.
    drifts = random.random() < (0.15 if recent else 0.5)
    feed = PLAIN_FEED
    if recent:
        feed = FeedSettings(
            "newest_first" if random.random() < 0.8 else random.choice(ORDERS),
            random.choice((0, 0, 0, 1, 2, 3, 3, 3, 4, 5)),
            pins_twice=random.random() < 0.3,
            archived=random.choice((0, 0, 1, 5)),
            misdated=random.choice((0, 0, 7)),
            weekly=random.random() < 0.3,
        )
    found: list[Day] = []
    for number in range(days):
        again = bool(found and found[-1].crash) and random.random() < 0.5
        found.append(_day(random, number, recent=recent, again=again))
    return Scenario(seed, settings, feed, drifts, tuple(found))
