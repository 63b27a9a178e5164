"""Every scripted fault, in process; those that break connections are in test_sandbox_serve.py too."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from connectors.sandbox.faults.rules import Action, Rule, rule_from_json
from connectors.sandbox.faults.script import ACTIONS
from connectors.sandbox.faults.tampering import GHOST, MALFORMED
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import SandboxSettings
from tests.sandbox.asgi_client import ACCOUNTS, Answer, Asker

Build = Callable[..., Asker]


def script(asker: Asker, kind: str, *, times: int | None = None, **match: Any) -> None:  # noqa: ANN401
    options = {name: match.pop(name) for name in list(match) if name in Action.__dataclass_fields__}
    asker.sandbox.faults.replace([Rule(Action(kind, **options), times=times, **match)])


def codes(asker: Asker, count: int, **query: object) -> list[int]:
    return [asker.get(**query).status for _ in range(count)]  # type: ignore[arg-type]


def test_nth_every_and_times(asker: Asker) -> None:
    script(asker, "error", nth=3)
    assert codes(asker, 5) == [200, 200, 500, 200, 200]
    script(asker, "error", every=2)
    assert codes(asker, 5) == [200, 500, 200, 500, 200]
    script(asker, "error", every=2, times=1)
    assert codes(asker, 5) == [200, 500, 200, 200, 200]
    script(asker, "error", times=2)
    assert codes(asker, 4) == [500, 500, 200, 200]


def test_operation_account_surface_and_first_page(asker: Asker) -> None:
    first, second = asker.account_id(0), asker.account_id(1)
    script(asker, "error", operation="accounts")
    assert [asker.get().status, asker.media(first).status] == [500, 200]
    script(asker, "error", operation="media", account_id=first, surface="posts")
    answers = [asker.get(), asker.media(first), asker.media(first, "stories"), asker.media(second)]
    assert [a.status for a in answers] == [200, 500, 200, 200]
    cursor = asker.get(limit=5).json()["next_cursor"]
    script(asker, "error", first_page=True)
    assert [asker.get().status, asker.get(cursor=cursor).status] == [500, 200]
    script(asker, "error", first_page=False)
    assert [asker.get().status, asker.get(cursor=cursor).status] == [200, 500]


def test_nth_counts_each_resource_by_itself(asker: Asker) -> None:
    script(asker, "error", nth=2)
    first, second = asker.account_id(0), asker.account_id(1)
    answers = [asker.media(first), asker.media(second), asker.media(first), asker.media(first, "stories")]
    assert [a.status for a in answers] == [200, 200, 500, 200]


def test_probability_is_seeded(build: Build) -> None:
    seen = []
    for seed in (7, 7, 8):
        asker = build(seed=seed, accounts=1)
        script(asker, "error", probability=0.2)
        seen.append(codes(asker, 200))
    assert seen[0] == seen[1] != seen[2]
    assert 20 <= seen[0].count(500) <= 60


def test_an_unknown_code(asker: Asker) -> None:
    script(asker, "error", code="api_brand_new", status=418)
    answer = asker.get()
    assert (answer.status, answer.code) == (418, "api_brand_new")


def test_retry_after_and_correlation_id_follow_the_rule(asker: Asker) -> None:
    script(asker, "error", code="rate_limited", retry_after=10**9, correlated=False)
    answer = asker.get()
    assert answer.headers["retry-after"] == "1000000000"
    assert "x-correlation-id" not in answer.headers
    assert "correlation_id" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("kind", "status", "content_type", "start"),
    [
        ("html_502", 502, "text/html", b"<html>"),
        ("plain_text", 200, "text/plain; charset=utf-8", b"Service is up"),
        ("redirect", 307, None, b""),
    ],
)
def test_replies_that_are_not_json(
    asker: Asker, kind: str, status: int, content_type: str | None, start: bytes
) -> None:
    script(asker, kind, url="https://elsewhere.example/x")
    answer = asker.get()
    assert (answer.status, answer.headers.get("content-type")) == (status, content_type)
    assert answer.body.startswith(start)
    assert answer.headers.get("location") == ("https://elsewhere.example/x" if kind == "redirect" else None)


def test_a_cut_body_is_shorter_than_promised(asker: Asker) -> None:
    script(asker, "cut")
    answer = asker.get()
    assert 0 < len(answer.body) < int(answer.headers["content-length"])


def test_a_reset_in_process(asker: Asker) -> None:
    script(asker, "reset")
    with pytest.raises(ConnectionResetError):
        asker.get()


def test_an_oversize_body_is_still_json(asker: Asker) -> None:
    script(asker, "oversize", size=3_000_000)
    answer = asker.get()
    assert len(answer.body) == int(answer.headers["content-length"]) == 3_000_000
    assert len(answer.json()["items"]) == 25


def test_delays_of_rules_add_up() -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    rules = (Rule(Action("delay", seconds=2.5)), Rule(Action("delay", seconds=1.0)), Rule(Action("html_502")))
    asker = Asker(Sandbox(SandboxSettings(faults=rules), sleep=sleep))
    assert asker.get().status == 502
    assert slept == [3.5]


@pytest.mark.parametrize("variant", sorted(MALFORMED))
def test_a_malformed_account_is_added_to_the_valid_ones(asker: Asker, variant: str) -> None:
    truth = asker.scan(limit=50)
    script(asker, "malformed_account", variant=variant, times=1)
    pages = list(asker.pages(limit=10))
    assert len(pages[0]["items"]) == 10
    scanned = [item for page in pages for item in page["items"]]
    strangers = [item for item in scanned if item not in truth]
    assert strangers == [pages[0]["items"][4]]
    assert strangers != [GHOST]
    assert [item for item in scanned if item in truth] == truth


@pytest.mark.parametrize(("kind", "extra"), [("item_without_id", 1), ("item_twice", 1)])
def test_added_items_do_not_displace_existing_ones(asker: Asker, kind: str, extra: int) -> None:
    account_id = asker.account_id()
    truth = asker.scan_media(account_id, limit=50)
    script(asker, kind, times=extra)
    scanned = asker.scan_media(account_id, limit=10)
    assert len(scanned) == len(truth) + extra
    assert [item for n, item in enumerate(scanned) if "id" in item and item not in scanned[:n]] == truth


def test_extra_fields(asker: Asker) -> None:
    script(asker, "extra_item_field")
    assert all("sandbox_extra" in account for account in asker.get().json()["items"])
    script(asker, "extra_page_field")
    assert asker.get().json().keys() == {"items", "next_cursor", "sandbox_extra"}


def test_51_items(asker: Asker) -> None:
    script(asker, "too_many_items")
    assert len(asker.get().json()["items"]) == 51
    assert len(asker.media(asker.account_id()).json()["items"]) == 51


def test_an_empty_page_in_the_middle_loses_nothing(asker: Asker) -> None:
    truth = asker.scan(limit=50)
    for match in ({"first_page": True}, {"nth": 2}, {"nth": 3}):
        script(asker, "empty_page", times=1, **match)
        pages = list(asker.pages(limit=10))
        assert [len(page["items"]) for page in pages].count(0) == 1
        assert [item for page in pages for item in page["items"]] == truth


def test_empty_pages_forever_never_repeat_a_cursor(asker: Asker) -> None:
    script(asker, "empty_page")
    cursors = [page["next_cursor"] for page, _ in zip(asker.pages(), range(20), strict=False)]
    assert len(set(cursors)) == 20


def test_a_repeated_cursor(asker: Asker) -> None:
    script(asker, "repeat_cursor", times=1)
    first = asker.get(limit=5).json()["next_cursor"]
    assert asker.get(limit=5, cursor=first).json()["next_cursor"] == first
    assert asker.get(limit=5, cursor=first).json()["next_cursor"] != first


@pytest.mark.parametrize("limit", [5, 25, 50])
def test_a_cycle_of_cursors_has_two(asker: Asker, limit: int) -> None:
    script(asker, "cycle_cursors")
    cursors = [page["next_cursor"] for page, _ in zip(asker.pages(limit=limit), range(9), strict=False)]
    assert len(cursors) == 9
    assert len(set(cursors)) <= 2
    if limit < 40:
        assert all(one != other for one, other in itertools.pairwise(cursors))


@pytest.mark.parametrize(("kind", "expected"), [("long_cursor", "c" * 1025), ("numeric_cursor", 17)])
def test_cursors_of_the_wrong_kind(asker: Asker, kind: str, expected: object) -> None:
    script(asker, kind)
    assert asker.get().json()["next_cursor"] == expected


def test_no_cursor_at_all_and_items_of_the_wrong_kind(asker: Asker) -> None:
    script(asker, "no_cursor")
    assert asker.get().json().keys() == {"items"}
    script(asker, "items_not_array")
    assert asker.get().json()["items"] == {}


def test_invalid_utf8_and_lone_surrogates(asker: Asker) -> None:
    account_id = asker.account_id()
    script(asker, "invalid_utf8")
    for answer in (asker.get(), asker.media(account_id), asker.get(key="sandbox-no-account-key")):
        with pytest.raises(UnicodeDecodeError):
            answer.body.decode()
    script(asker, "lone_surrogate")
    assert b"\\ud83c" in asker.media(account_id).body
    with pytest.raises(UnicodeEncodeError):
        asker.media(account_id).json()["items"][0]["caption"].encode()


def test_a_refused_cursor(asker: Asker) -> None:
    script(asker, "refuse_cursor", times=1)
    cursor = asker.get(limit=5).json()["next_cursor"]
    assert asker.get(cursor=cursor).code == "api_invalid_cursor"
    assert asker.get(cursor=cursor).status == 200


def test_all_cursors_until_now_are_refused(asker: Asker) -> None:
    account_id = asker.account_id()
    catalogue = asker.get(limit=5).json()["next_cursor"]
    posts = asker.media(account_id, limit=5).json()["next_cursor"]
    script(asker, "forget_cursors", times=1)
    assert asker.get(cursor=catalogue).code == "api_invalid_cursor"
    assert asker.get(cursor=catalogue).code == "api_invalid_cursor"
    assert asker.media(account_id, cursor=posts).code == "api_invalid_cursor"
    assert len(asker.scan(limit=5)) == 40


def test_faults_follow_one_another(asker: Asker) -> None:
    asker.sandbox.faults.replace(
        [Rule(Action("extra_page_field")), Rule(Action("item_twice")), Rule(Action("cut"), times=1)]
    )
    cut, whole = asker.get(limit=5), asker.get(limit=5)
    assert whole.body.startswith(cut.body)
    page = whole.json()
    assert "sandbox_extra" in page
    assert page["items"][0] == page["items"][-1]


def test_a_page_made_invalid_json_by_one_fault_stays_invalid(asker: Asker) -> None:
    asker.sandbox.faults.replace([Rule(Action("invalid_utf8")), Rule(Action("item_twice"))])
    with pytest.raises(UnicodeDecodeError):
        asker.get().body.decode()


@pytest.mark.parametrize("kind", sorted(ACTIONS - {"reset", "delay"}))
def test_faults_do_not_change_the_data(asker: Asker, kind: str) -> None:
    account_id = asker.account_id()

    def answers() -> list[Answer]:
        return [asker.get(limit=5), asker.media(account_id, limit=5)]

    before = [answer.json() for answer in answers()]
    script(asker, kind)
    answers()
    asker.sandbox.cursors.epoch = 0
    asker.sandbox.faults.clear()
    assert [answer.json() for answer in answers()] == before


def test_rules_from_json() -> None:
    document = '{"operation": "media", "every": 3, "action": {"kind": "error", "code": "x", "status": 599}}'
    assert rule_from_json(json.loads(document)) == Rule(
        Action("error", code="x", status=599), operation="media", every=3
    )
    assert rule_from_json({"action": "reset"}) == Rule(Action("reset"))


def test_invalid_requests_are_refused_before_faults_apply(asker: Asker) -> None:
    script(asker, "html_502")
    assert asker.get(key=None).status == 401
    assert asker.get(limit=0).status == 422
    assert asker.raw(f"{ACCOUNTS}/x").status == 400
    assert asker.sandbox.faults.fired.total() == 0
