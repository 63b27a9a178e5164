"""A key with fewer grants, an empty catalogue and another address: nothing is removed, and everything says so."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Operator, Service
from tests.prefect_api import ask

pytestmark = pytest.mark.e2e

ONE_ACCOUNT = "sandbox-one-account-key"
NO_ACCOUNT = "sandbox-no-account-key"
PRESENT = "SELECT count(*) FROM accounts WHERE removed_at IS NULL"


def elsewhere(service: Service) -> str:
    """The same server under another name."""
    return service.url.replace("127.0.0.1", "localhost")


def test_a_key_with_fewer_grants_removes_nothing_until_a_person_says_so(operator: Operator) -> None:
    operator.sync()
    text = operator.run("sync", code=3, GRAMHOUSE_API_KEY=ONE_ACCOUNT).stdout
    assert "7 of 8 known accounts are missing from the catalogue: none of them was marked as removed." in text
    assert "--accept-removals" in text
    assert operator.ask(PRESENT) == [(8,)]
    assert "7 of 8 known accounts are missing" in operator.run("status", code=3).stdout
    assert "7 accounts missing from the catalogue" in operator.run("accounts").stdout
    [last, _] = json.loads(operator.run("runs", "--json").stdout)["runs"]
    assert (last["state"], last["accounts_missing"], last["accounts_removed"]) == ("partial", 7, 0)
    result = operator.sync(code=3, GRAMHOUSE_API_KEY=NO_ACCOUNT)
    assert (result["accounts_missing"], result["warnings"][0]["code"]) == (8, "accounts_missing")
    result = json.loads(operator.run("sync", "--accept-removals", "--json", GRAMHOUSE_API_KEY=ONE_ACCOUNT).stdout)
    assert (result["state"], result["accounts_missing"], result["accounts_removed"]) == ("complete", 0, 7)
    assert operator.ask(PRESENT) == [(1,)]
    operator.sync()
    gaps = "SELECT count(*) FROM account_status_history WHERE status = 'removed' AND valid_to IS NOT NULL"
    assert (operator.ask(PRESENT), operator.ask(gaps)) == ([(8,)], [(7,)])


def test_another_address_is_refused_until_a_person_accepts_it(operator: Operator, service: Service) -> None:
    operator.run("sync", "--base-url", f"{service.url}/api/v1/")
    other = elsewhere(service)
    for command in (["sync"], ["backfill", "--all"]):
        service.forget()
        text = operator.run(*command, code=2, GRAMHOUSE_BASE_URL=other).stderr
        assert f"This warehouse was filled from {service.url}, but the configured address is {other}." in text
        assert "--rebind" in text
        assert service.requests() == []
    operator.run("sync", "--rebind", GRAMHOUSE_BASE_URL=other)
    assert operator.ask("SELECT base_url, state FROM runs ORDER BY seq") == [
        (service.url, "complete"),
        (other, "complete"),
    ]
    operator.run("sync", code=2)


@pytest.mark.prefect
def test_under_prefect_the_states_and_options_are_the_same(
    operator: Operator, service: Service, api: str, home: Path
) -> None:
    operator.env |= {"PREFECT_API_URL": api, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}

    def newest() -> tuple[str, str, str]:
        run = max(ask(api, "flow_runs/filter"), key=lambda run: run["created"])
        return run["state_type"], run["state"]["name"], run["state"]["message"]

    operator.run("sync")
    operator.run("sync", code=3, GRAMHOUSE_API_KEY=ONE_ACCOUNT)
    _, name, message = newest()
    assert name.startswith("Partial")
    assert "7 of 8 known accounts are missing" in message
    operator.run("sync", code=2, GRAMHOUSE_BASE_URL=elsewhere(service))
    kind, name, message = newest()
    assert (kind, name) == ("FAILED", "Invalid parameters")
    assert service.url in message
    operator.run(
        "sync", "--rebind", "--accept-removals", GRAMHOUSE_BASE_URL=elsewhere(service), GRAMHOUSE_API_KEY=ONE_ACCOUNT
    )
    assert operator.ask(PRESENT) == [(1,)]
    (page,) = [
        found["data"] for found in ask(api, "artifacts/filter") if "7 accounts marked removed" in str(found["data"])
    ]
    assert "--accept-removals was given" in page
