"""The odd API does what its scripts say, and only that."""

import itertools
from typing import Any

import httpx
import pytest

from connectors.sandbox.http.keys import DEMO_KEY
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import RateLimit, SandboxSettings
from tests.clocks import VirtualClock
from tests.odd_api.api import OddApi
from tests.odd_api.faults import ACTIONS, Action, Rule
from tests.sandbox.asgi_client import ACCOUNTS, Asker


@pytest.fixture
def api() -> OddApi:
    return OddApi()


@pytest.fixture
def asker(api: OddApi) -> Asker:
    return Asker(api)


@pytest.mark.parametrize(
    ("conditions", "statuses"),
    [
        ({"nth": 3}, [200, 200, 500, 200, 200]),
        ({"every": 2}, [200, 500, 200, 500, 200]),
        ({"every": 2, "times": 1}, [200, 500, 200, 200, 200]),
        ({"first_page": True}, [500, 500, 500, 500, 500]),
        ({"first_page": False}, [200, 200, 200, 200, 200]),
        ({"operation": "media"}, [200, 200, 200, 200, 500]),
        ({"probability": 0.4}, [200, 500, 500, 200, 200]),
    ],
)
def test_conditions(api: OddApi, asker: Asker, conditions: dict[str, Any], statuses: list[int]) -> None:
    api.script.replace([Rule(Action("error"), **conditions)])
    assert asker.get(limit=0).status == 422
    assert [*(asker.get().status for _ in range(4)), asker.media(asker.account_id()).status] == statuses


@pytest.mark.parametrize("kind", sorted(ACTIONS - {"delay", "reset", "refuse_cursor", "repeat_cursor"}))
def test_a_fault_changes_the_reply_and_not_the_data(api: OddApi, asker: Asker, kind: str) -> None:
    truth, plain, cursor = asker.scan(limit=50), asker.get(limit=5), asker.get(limit=20).json()["next_cursor"]
    api.script.replace([Rule(Action(kind, "api_new", size=70_000))])
    replies = asker.get(limit=5), asker.get(limit=20, cursor=cursor)
    assert (replies[0].status, replies[0].body) != (plain.status, plain.body) or kind == "cycle_cursors"
    assert replies[0].body != replies[1].body or kind in ("error", "html_502", "plain_text", "redirect")
    api.script.replace([])
    assert asker.scan(limit=50) == truth


def test_cursors_that_do_not_advance_or_are_refused(api: OddApi, asker: Asker) -> None:
    account_id = asker.account_id()
    first, other = asker.get(limit=5).json()["next_cursor"], asker.media(account_id, limit=5).json()["next_cursor"]
    api.script.replace([Rule(Action("repeat_cursor"), times=1)])
    assert asker.get(limit=5, cursor=first).json()["next_cursor"] == first
    for kind, different in (("cycle_cursors", 2), ("empty_page", 9)):
        api.script.replace([Rule(Action(kind))])
        cursors = [page["next_cursor"] for page, _ in zip(asker.pages(limit=5), range(9), strict=False)]
        assert len(set(cursors)) == different
        assert all(one != next_ for one, next_ in itertools.pairwise(cursors))
    api.script.replace([Rule(Action("refuse_cursor"), times=1)])
    assert [asker.get(cursor=first).code for _ in range(2)] == ["api_invalid_cursor", ""]
    api.script.replace([Rule(Action("forget_cursors"), times=1)])
    assert [asker.get(cursor=first).code for _ in range(2)] == ["api_invalid_cursor"] * 2
    assert asker.media(account_id, cursor=other).code == "api_invalid_cursor"


@pytest.mark.parametrize("kind", ["cut", "reset", "oversize"])
def test_broken_connections(api: OddApi, kind: str) -> None:
    rule = {"action": {"kind": kind, "size": 50_000_000}, "times": 1}
    with in_thread(api) as url, httpx.Client(base_url=url, headers={"Authorization": f"Bearer {DEMO_KEY}"}) as client:
        assert client.post("/_sandbox/rules", json=[rule]).status_code == 200
        if kind == "oversize":
            # A client may leave in the middle of the body.
            with client.stream("GET", ACCOUNTS) as response:
                next(response.iter_bytes())
        else:
            with pytest.raises(httpx.RemoteProtocolError if kind == "cut" else httpx.ReadError):
                client.get(ACCOUNTS)
        assert client.get(ACCOUNTS).status_code == 200


def test_the_log_has_all_requests_and_counts_those_that_came_too_early() -> None:
    clock = VirtualClock()
    api = OddApi(SandboxSettings(selected_account=RateLimit(1, 5)), clock=clock.monotonic)
    asker, account_id = Asker(api), api.catalogue.account_id(0)
    for passed in (0, 0, 4.9, 1.0):
        clock.passed += passed
        asker.media(account_id, "stories")
    asker.get(key=None, limit=5)
    counts = {"accounts.list": {"401": 1}, "accounts.media.list": {"200": 2, "429": 2}}
    assert asker.control("GET", "stats").json() == {"total": 5, "counts": counts, "early_requests": 1}
    first, *_, last = asker.control("GET", "requests").json()
    assert (first["account_id"], first["surface"], first["cursor"], last["status"]) == (
        account_id,
        "stories",
        None,
        401,
    )
    asker.control("DELETE", "requests")
    assert asker.control("GET", "stats").json()["total"] == 0
