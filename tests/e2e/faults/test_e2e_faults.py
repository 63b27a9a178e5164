"""Errors of the network and of the API, from the operator's view."""

from typing import Any

import pytest

from tests.e2e.expected import assert_matches_api
from tests.e2e.processes import Operator, SandboxProcess

pytestmark = pytest.mark.e2e


def _now_and_then(chance: float, *kinds: dict[str, object]) -> list[dict[str, object]]:
    return [{"action": kind, "probability": chance} for kind in kinds]


def test_errors_resets_and_cut_bodies_end_complete_and_exact(operator: Operator, service: SandboxProcess) -> None:
    service.faults(
        *_now_and_then(0.03, {"kind": "error", "code": "api_internal_error"}, {"kind": "reset"}, {"kind": "cut"})
    )
    report = operator.sync(GRAMHOUSE_PAGE_SIZE="5")
    assert report["state"] == "complete"
    assert_matches_api(operator, service)


def test_a_wrong_key_is_one_clear_line_and_loses_nothing(operator: Operator) -> None:
    operator.sync()
    before = operator.ask("SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL")
    message = operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong")
    assert len(message.stdout.strip().splitlines()) == 1
    assert message.stdout.count("api_unauthorized") == 1
    assert "check the API key" in message.stdout
    assert operator.ask("SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL") == before
    assert operator.ask("SELECT state, error_code FROM runs ORDER BY started_at DESC LIMIT 1") == [
        ("failed", "api_unauthorized")
    ]


def test_a_key_without_the_scope_lands_accounts_and_denies_media(operator: Operator, service: SandboxProcess) -> None:
    report = operator.sync(code=1, GRAMHOUSE_API_KEY="sandbox-no-scope-key")
    active = service.active()
    assert report["stopped_by"]["code"] == "api_scope_denied"
    assert report["outcomes"]["denied"] == 2 * len(active)
    assert operator.ask("SELECT count(*) FROM accounts") == [(len(service.accounts()),)]
    # A few scans were running at the first refusal; the others sent no request.
    media = service.stats()["counts"]["accounts.media.list"]
    assert sum(media.values()) <= len(active)


TROUBLES = {
    "api_account_not_granted": "denied",
    "api_forbidden": "denied",
    "api_automation_media_not_found": "not_found",
    "api_automation_invalid_configuration": "failed",
    "api_made_up": "failed",
}


def test_a_failing_account_does_not_affect_others(operator: Operator, service: SandboxProcess) -> None:
    troubled = dict(zip(service.active(), TROUBLES, strict=False))
    assert len(troubled) == len(TROUBLES) < len(service.active())
    status = {"api_made_up": {"status": 409}}
    service.faults(
        *(
            {"action": {"kind": "error", "code": code, **status.get(code, {})}, "account_id": one}
            for one, code in troubled.items()
        )
    )
    report = operator.sync(code=3)
    assert report["state"] == "partial"
    rows = operator.ask(
        "SELECT account_id, outcome, error_code, correlation_id FROM run_outcomes"
        " WHERE outcome NOT IN ('complete', 'skipped')"
    )
    assert {row[:3] for row in rows} == {(one, TROUBLES[code], code) for one, code in troubled.items()}
    assert all(len(row[3]) == 26 for row in rows)
    service.faults()
    operator.sync()
    assert_matches_api(operator, service)


@pytest.mark.long
def test_a_cursor_loop_fails_only_its_partition(operator: Operator, service: SandboxProcess) -> None:
    one = service.active()[0]
    service.faults({"action": "cycle_cursors", "account_id": one, "surface": "posts"})
    operator.sync(code=3, GRAMHOUSE_PAGE_SIZE="5")
    rows = operator.ask("SELECT account_id, surface, outcome, error_code FROM run_outcomes WHERE outcome = 'failed'")
    assert rows == [(one, "posts", "failed", "cursor_loop")]
    service.faults()
    operator.sync()
    assert_matches_api(operator, service)


@pytest.mark.long
def test_a_malformed_account_goes_to_quarantine_and_its_page_lands(operator: Operator, service: SandboxProcess) -> None:
    service.faults({"action": "malformed_account", "operation": "accounts", "first_page": True})
    operator.sync()
    rows: list[Any] = operator.ask("SELECT reason, resource, page, correlation_id FROM quarantine")
    assert len(rows) == 1
    assert rows[0][1:3] == ("accounts", 1)
    assert len(rows[0][3]) == 26
    operator.sync()
    assert operator.ask("SELECT count(*) FROM quarantine") == [(1,)]


@pytest.mark.long
def test_fields_the_contract_does_not_know_are_recorded(operator: Operator, service: SandboxProcess) -> None:
    service.faults({"action": "extra_item_field", "operation": "accounts"}, {"action": "extra_page_field"})
    operator.sync()
    met = {row[0] for row in operator.ask("SELECT resource FROM fields")}
    assert met >= {"account", "account_page", "media_page"}
    assert_matches_api(operator, service)


@pytest.mark.long
def test_an_unpaired_surrogate_in_a_caption_does_not_reject_the_item(
    operator: Operator, service: SandboxProcess
) -> None:
    service.faults({"action": "lone_surrogate", "operation": "media"})
    report = operator.sync()
    assert report["state"] == "complete"
    service.faults()
    operator.sync()
    assert_matches_api(operator, service)


@pytest.mark.long
def test_a_redirect_is_not_followed(operator: Operator, service: SandboxProcess) -> None:
    service.faults({"action": {"kind": "redirect", "url": "https://elsewhere.example/login"}})
    message = operator.run("sync", code=1)
    assert "redirect" in message.stdout
    assert "elsewhere.example" in message.stdout
    assert service.stats()["total"] == 1
