"""A fake API without network on a clock of whole hours, whose accounts publish at rates of their own.

Posts a day are lognormal with a median of 0.3; a fifth of the accounts publish a story a day on average.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from urllib.parse import parse_qsl

from benchmarks.api.dated_api import START, ShiftedClock, account_uuid
from connectors.source.messages import ApiRequest, Response, read_response

_MEDIAN, _DEVIATION = 0.3, 1.0
_WITH_STORIES, _STORIES = 0.2, 1.0

# Days of posts before the start, and for which a story is listed.
_HISTORY, _LISTED = 600, 1


class HourClock(ShiftedClock):
    """A clock that only its scenario advances, by hours."""

    hours = 0

    def now(self) -> datetime:
        """Return the simulated time."""
        return START + timedelta(hours=self.hours)


@dataclass(frozen=True, slots=True)
class Published:
    """When an account publishes its posts and stories: days after the start, ascending."""

    posts: Sequence[float]
    stories: Sequence[float]

    def listed(self, surface: str, day: float) -> range:
        """Return the numbers of the items that are listed at a time, the newest first."""
        times = self.posts if surface == "posts" else self.stories
        first = 0 if surface == "posts" else bisect_right(times, day - _LISTED)
        return range(bisect_right(times, day) - 1, first - 1, -1)


def _draw_times(draw: Random, per_day: float, begin: float, end: float) -> Sequence[float]:
    times = [begin + draw.expovariate(per_day)]
    while times[-1] < end:
        times.append(times[-1] + draw.expovariate(per_day))
    return times[:-1]


class RatedApi:
    """Accounts with posts of the 600 days before the start and of `days` days after it, drawn with a seed."""

    def __init__(self, accounts: int, days: int, seed: int = 1) -> None:
        draw = Random(seed)
        self.clock = HourClock()
        self.requests = 0
        self.published = [
            Published(
                _draw_times(draw, _MEDIAN * math.exp(draw.gauss(0, _DEVIATION)), -_HISTORY, days),
                _draw_times(draw, _STORIES, -_LISTED, days) if draw.random() < _WITH_STORIES else (),
            )
            for _ in range(accounts)
        ]

    async def send(self, request: ApiRequest) -> Response:
        """Return the response to a request."""
        self.requests += 1
        params = dict(parse_qsl(request.target.partition("?")[2]))
        begin, limit = int(params.get("cursor", "0")), int(params["limit"])
        if request.operation == "accounts.list":
            numbers = range(len(self.published))
            items = [_account(number) for number in numbers[begin : begin + limit]]
        else:
            account, surface = int(request.scope[-12:]), params["surface"]
            numbers = self.published[account].listed(surface, self.clock.hours / 24)
            items = [self._item(account, surface, number) for number in numbers[begin : begin + limit]]
        cursor = str(begin + limit) if begin + limit < len(numbers) else None
        body = json.dumps({"items": items, "next_cursor": cursor}).encode()
        headers = {"x-correlation-id": "01HZZZZZZZZZZZZZZZZZZZZZZZ"}
        return read_response(request, 200, headers, body, now=self.clock.now())

    def _item(self, account: int, surface: str, number: int) -> dict[str, object]:
        published = self.published[account]
        day = (published.posts if surface == "posts" else published.stories)[number]
        timestamp = (START + timedelta(days=day)).isoformat()
        return {"id": f"{account:06d}{surface[0]}{number:06d}", "media_type": "IMAGE", "timestamp": timestamp}


def _account(number: int) -> dict[str, object]:
    named = {"ig_username": f"account_{number}", "public_id": f"p{number:012d}"}
    return {"id": account_uuid(number), "status": "active", **named}
