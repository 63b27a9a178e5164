"""Rule C: what the service did not say is a gateway's word. It never stops a run and never blames the key."""

import json

import pytest

from tests.api.asked import Asked
from tests.api.faults import JSON, Action
from tests.nights.conftest import Operator, gateway


@pytest.mark.parametrize("status", [401, 302])
def test_one_page_of_a_gateway_costs_nothing(operator: Operator, status: int) -> None:
    service, portal = operator.connect(), gateway(status, Location="https://portal.example/login")
    service.fault = lambda asked: portal if asked.is_posts(2) and len(service.post_cursors(2)) == 1 else None
    operator.run("sync")
    assert operator.count("media") == 3 * 3


@pytest.mark.parametrize(("status", "of_media"), [(401, True), (403, False)])
def test_a_gateway_that_refuses_always_is_named(operator: Operator, status: int, *, of_media: bool) -> None:
    service = operator.connect()
    service.fault = lambda asked: gateway(status) if asked.is_posts(2) or not (of_media or asked.number) else None
    text = operator.run("sync", code=3 if of_media else 1).text
    assert [word in text for word in ("gateway", "API key", "grant")] == [True, False, False]


def test_doctor_is_not_content_with_a_gateway(operator: Operator) -> None:
    operator.connect(fault=lambda _: gateway(404))
    assert "gateway" in operator.run("doctor", code=1).text


@pytest.mark.parametrize("header", [{"Age": "3600"}, {"X-Correlation-ID": "0123456789ABCDEFGHJKMNPQRS"}])
def test_what_a_cache_kept_makes_nothing_fresh(operator: Operator, header: dict[str, str]) -> None:
    def kept(asked: Asked) -> Action:
        items = service.records(asked.number, asked.surface or "")
        body = json.dumps({"items": items, "next_cursor": None}).encode()
        return Action("raw", body=body, headers={**JSON, **header})

    service = operator.connect(accounts=1)
    operator.night()
    before = operator.ask("SELECT surface, complete_at FROM freshness ORDER BY surface")
    service.fault = kept
    assert "cache" in operator.run("sync", code=3).text
    assert operator.ask("SELECT surface, complete_at FROM freshness ORDER BY surface") == before
