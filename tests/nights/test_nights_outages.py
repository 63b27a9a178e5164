"""Rules D and E: trouble everywhere is not trouble of each account, and less is asked for before giving up.

The service goes by the virtual clock, which only the waits of the run advance.
"""

import pytest

from connectors.sandbox.http.replies import PageRequest
from tests.nights.conftest import Operator
from tests.nights.service import Answer, Page, Service, failure, gateway, is_media


@pytest.mark.parametrize("seconds", [120, 600])
def test_an_outage_of_seconds_costs_no_scan(operator: Operator, seconds: int) -> None:
    service, refused_at = operator.connect(Service(accounts=40, posts=1)), list[float]()

    def away(request: PageRequest, _: Page) -> Answer:
        if not request.account or operator.clock.passed >= seconds:
            return None
        refused_at.append(operator.clock.passed)
        return gateway(502)

    service.respond = away
    done = operator.sync("--surface", "posts")
    assert done.code == 0, done.text
    # It is noticed after a second. From then on, one request at a time asks whether it is back, after pauses of 1, 2, 4
    # ... 60 s. Those in flight were sent before that; how many, the machine decides.
    in_flight, pauses = 16, 6 + seconds / 60
    assert sum(at > 1 for at in refused_at) <= in_flight + pauses


def test_what_failed_for_a_passing_reason_is_scanned_once_more(operator: Operator) -> None:
    service = operator.connect(Service(accounts=3))

    def at_first(request: PageRequest, _: Page) -> Answer:
        is_early = is_media(request, 1) and sum(is_media(one, 1) for one in service.asked) <= 6
        return failure(500, "api_internal_error") if is_early else None

    service.respond = at_first
    done = operator.sync()
    assert done.code == 0, done.text


@pytest.mark.parametrize(("status", "most"), [(500, 10), (504, 5)])
def test_a_service_that_cannot_answer_large_pages_is_asked_for_less(operator: Operator, status: int, most: int) -> None:
    service = operator.connect(Service(accounts=2, posts=30))
    refusal = failure(500, "api_internal_error") if status == 500 else gateway(status)
    service.respond = lambda request, _: refusal if is_media(request, 1) and request.limit > most else None
    done = operator.sync("--surface", "posts")
    assert done.code == 0, done.text
    details = operator.ask("SELECT detail FROM run_outcomes WHERE surface = 'posts' AND detail IS NOT NULL")
    assert len(details) == 1


def refuse_cursors(service: Service, at: list[int]) -> None:
    """Refuse the cursor of these requests for posts, counted from 0."""
    service.respond = lambda request, _: (
        failure(422, "api_invalid_cursor")
        if is_media(request) and len([one for one in service.asked if is_media(one)]) - 1 in at
        else None
    )


def test_a_scan_begins_again_as_long_as_it_gets_further(operator: Operator) -> None:
    operator.set(page_size="2")
    service = operator.connect(Service(accounts=1, posts=12))
    refuse_cursors(service, [2, 6, 11])
    done = operator.sync("--surface", "posts")
    assert done.code == 0, done.text


def test_a_scan_that_gets_no_further_says_that_it_cannot_finish(operator: Operator) -> None:
    operator.set(page_size="2")
    service = operator.connect(Service(accounts=1, posts=12))
    refuse_cursors(service, list(range(2, 99, 3)))
    done = operator.sync("--surface", "posts")
    assert done.code in (1, 3)
    assert "no action needed" not in done.text
    assert "cannot finish" in done.text
