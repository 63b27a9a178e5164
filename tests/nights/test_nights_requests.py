"""Rules C to E: gateways blame no key, trouble everywhere is not that of each account, less is asked before giving up.

The service goes by the virtual clock, which only the waits of the run advance.
"""

import json

import pytest

from tests.api.asked import Asked
from tests.api.faults import JSON, Action, refuse
from tests.nights.conftest import Operator, gateway
from tests.prefect_api import free_port


def test_a_gateway_that_refuses_always_is_named(operator: Operator) -> None:
    operator.connect(fault=lambda asked: gateway(401) if asked.is_posts(2) else None)
    text = operator.run("sync", code=3).text
    assert [word in text for word in ("gateway", "API key", "grant")] == [True, False, False]


@pytest.mark.parametrize("header", [{"Age": "3600"}, {"X-Correlation-ID": "0123456789ABCDEFGHJKMNPQRS"}])
def test_what_a_cache_kept_makes_nothing_fresh(operator: Operator, header: dict[str, str]) -> None:
    def kept(asked: Asked) -> Action:
        items = service.records(asked.number, asked.surface or "")
        body = json.dumps({"items": items, "next_cursor": None}).encode()
        return Action("raw", body=body, headers={**JSON, **header})

    service, query = operator.connect(accounts=1), "SELECT surface, complete_at FROM freshness ORDER BY surface"
    operator.night()
    before = operator.ask(query)
    service.fault = kept
    assert "cache" in operator.run("sync", code=3).text
    assert operator.ask(query) == before


def test_an_outage_costs_no_scan(operator: Operator) -> None:
    service, refused_at, seconds = operator.connect(accounts=40, posts=1), list[float](), 600

    def away(asked: Asked) -> Action | None:
        if asked.number is None or operator.clock.passed >= seconds:
            return None
        refused_at.append(operator.clock.passed)
        return gateway(502)

    service.fault = away
    operator.run("sync", "--surface", "posts")
    # It is noticed after a second. From then on, one request at a time asks whether it is back, after pauses of 1, 2, 4
    # ... 60 s. Those in flight were sent before that; how many, the machine decides.
    in_flight, pauses = 16, 6 + seconds / 60
    assert sum(at > 1 for at in refused_at) <= in_flight + pauses


def test_what_failed_for_a_passing_reason_is_scanned_once_more(operator: Operator) -> None:
    service, away = operator.connect(), refuse("api_internal_error")
    service.fault = lambda asked: away if asked.is_posts(2) and len(service.post_cursors(2)) <= 6 else None
    operator.run("sync")


def test_a_run_that_failed_as_a_whole_is_repeated_later(operator: Operator) -> None:
    operator.set(base_url=f"http://127.0.0.1:{free_port()}", api_key="key")
    text = operator.run("sync", "--retries", "1", code=1).text
    assert "The run ended failed. Retry 1 of 1 in 5 min (connection_failed)" in text
    assert operator.inside("SELECT state FROM core.runs") == [("failed",), ("failed",)]


def test_a_service_that_cannot_answer_large_pages_is_asked_for_less(operator: Operator) -> None:
    operator.connect(
        accounts=2, posts=30, fault=lambda asked: gateway(504) if asked.is_posts(2) and int(asked.limit) > 5 else None
    )
    operator.run("sync", "--surface", "posts")
    assert operator.count("run_outcomes", "surface = 'posts' AND detail IS NOT NULL") == 1


@pytest.mark.parametrize(("refused", "ends"), [([2, 6, 11], True), (range(2, 99, 3), False)])
def test_a_scan_begins_again_as_long_as_it_gets_further(operator: Operator, refused: list[int], *, ends: bool) -> None:
    """The requests for posts with these numbers get an answer that refuses their cursor."""
    operator.set(page_size="2")
    service = operator.connect(accounts=1, posts=12)
    service.fault = lambda asked: (
        refuse("api_invalid_cursor") if asked.is_posts(1) and len(service.post_cursors()) - 1 in refused else None
    )
    text = operator.run("sync", "--surface", "posts", code=0 if ends else 3).text
    assert ("cannot finish" in text) is not ends
    assert ends or "no action needed" not in text
