"""Errors of the network and of the API, from the operator's view."""

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
