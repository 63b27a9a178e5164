"""A wrong key, one with fewer grants, an empty catalogue, another address: nothing is removed, and the run says so."""

import json
import re

import pytest

from tests.api.server import Api
from tests.operator import Operator

pytestmark = pytest.mark.e2e

ONE_ACCOUNT = "sandbox-one-account-key"
NO_ACCOUNT = "sandbox-no-account-key"
PRESENT = "SELECT count(*) FROM accounts WHERE removed_at IS NULL"


def elsewhere(service: Api) -> str:
    """The same server under another name."""
    return service.url.replace("127.0.0.1", "localhost")


def test_a_key_with_fewer_grants_removes_nothing_until_confirmed(operator: Operator) -> None:
    operator.sync()
    text = operator.run("sync", code=3, GRAMHOUSE_API_KEY=ONE_ACCOUNT).stdout
    assert re.search(r"7 of 8 known accounts \(.* and 2 more\) are missing from the catalogue, and not marked as", text)
    assert "--accept-removals" in text
    assert operator.ask(PRESENT) == [(8,)]
    assert "7 of 8 known accounts (" in operator.run("status", code=3).stdout
    assert "missing " in operator.run("accounts").stdout
    [last, _] = json.loads(operator.run("runs", "--json").stdout)["runs"]
    assert (last["state"], last["accounts_missing"], last["accounts_removed"]) == ("partial", 7, 0)
    result = operator.sync(code=3, GRAMHOUSE_API_KEY=NO_ACCOUNT)
    assert (result["accounts_missing"], result["findings"][0]["code"]) == (8, "accounts_missing")
    result = json.loads(operator.run("sync", "--accept-removals", "--json", GRAMHOUSE_API_KEY=ONE_ACCOUNT).stdout)
    assert (result["state"], result["accounts_missing"], result["accounts_removed"]) == ("complete", 0, 7)
    assert operator.ask(PRESENT) == [(1,)]
    assert operator.ask("SELECT accept_removals, accounts_removed FROM runs ORDER BY seq")[-1] == (True, 7)
    operator.sync()
    gaps = "SELECT count(*) FROM account_status_history WHERE status = 'removed' AND valid_to IS NOT NULL"
    assert (operator.ask(PRESENT), operator.ask(gaps)) == ([(8,)], [(7,)])


def test_another_address_is_refused_until_a_person_accepts_it(operator: Operator, service: Api) -> None:
    operator.run("sync", "--base-url", f"{service.url}/api/v1/")
    other = elsewhere(service)
    for command in (["sync"], ["backfill", "--all"]):
        service.requests.clear()
        text = operator.run(*command, code=2, GRAMHOUSE_BASE_URL=other).stderr
        assert f"This warehouse was filled from {service.url}, but the configured address is {other}." in text
        assert "--rebind" in text
        assert service.requests == []
    operator.run("sync", "--rebind", GRAMHOUSE_BASE_URL=other)
    assert operator.ask("SELECT base_url, state FROM runs ORDER BY seq") == [
        (service.url, "complete"),
        (other, "complete"),
    ]
    operator.run("sync", code=2)


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
