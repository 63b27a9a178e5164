import json

from tests.sandbox.asgi_client import Asker


def test_day(asker: Asker) -> None:
    assert asker.control("GET", "day").json() == {"day": 0}
    assert asker.control("POST", "day").json() == {"day": 1}
    assert asker.control("POST", "day", {"advance": 3}).json() == {"day": 4}
    assert asker.control("POST", "day", {"day": 2}).json() == {"day": 2}
    assert asker.sandbox.day == 2
    for wrong in ({"day": -1}, {"day": "x"}, {"advance": "x"}, {"day": True}, [1]):
        assert asker.control("POST", "day", wrong).status == 400


def test_faults(asker: Asker) -> None:
    rule = {"operation": "accounts", "times": 1, "action": {"kind": "error", "code": "api_forbidden"}}
    shown = asker.control("POST", "faults", [rule, {"action": "html_502", "nth": 99}]).json()["faults"]
    assert (shown[0]["action"]["code"], shown[0]["fired"], shown[1]["action"]["kind"]) == (
        "api_forbidden",
        0,
        "html_502",
    )
    assert asker.get().code == "api_forbidden"
    assert asker.get().status == 200
    assert asker.control("GET", "faults").json()["faults"][0]["fired"] == 1
    assert asker.control("DELETE", "faults").json() == {"faults": []}


def test_invalid_faults_are_refused(asker: Asker) -> None:
    wrong: list[object] = [
        {"no": "array"},
        [{"operation": "accounts"}],
        [{"action": "explode"}],
        [{"action": "reset", "when": "now"}],
        [{"action": {"kind": "reset", "loud": True}}],
        [{"action": "reset", "operation": "write"}],
        [{"action": {"kind": "malformed_account", "variant": "funny"}}],
        ["reset"],
    ]
    for document in wrong:
        answer = asker.control("POST", "faults", document)
        assert (answer.status, list(answer.json())) == (400, ["error"]), document
    assert asker.sandbox.faults.rules == ()


def test_requests_and_stats(asker: Asker) -> None:
    account_id = asker.account_id()
    answers = [asker.get(limit=5), asker.media(account_id, "stories"), asker.media(account_id, "reels")]
    asker.get(limit=5)
    entries = asker.control("GET", "requests").json()["requests"]
    assert [entry["correlation_id"] for entry in entries][:3] == [a.headers["x-correlation-id"] for a in answers]
    assert entries[1] == {
        "operation": "accounts.media.list",
        "account_id": account_id,
        "surface": "stories",
        "cursor": None,
        "limit": 25,
        "status": 200,
        "code": None,
        "time": 1000.0,
        "correlation_id": answers[1].headers["x-correlation-id"],
    }
    assert entries[2]["code"] == "api_automation_invalid_configuration"
    stats = asker.control("GET", "stats").json()
    assert stats["counts"] == {"accounts.list": {"200": 2}, "accounts.media.list": {"200": 1, "422": 1}}
    assert (stats["total"], stats["distinct"], stats["early_requests"]) == (4, 3, 0)
    assert [(again["operation"], again["times"]) for again in stats["asked_again"]] == [("accounts.list", 2)]
    assert asker.control("DELETE", "requests").json()["total"] == 0
    assert asker.control("GET", "requests").json() == {"requests": []}


def test_truth_equals_the_result_of_scans(asker: Asker) -> None:
    asker.control("POST", "day", {"day": 3})
    accounts = [json.loads(line) for line in asker.control("GET", "truth").body.splitlines()]
    assert accounts == asker.scan(limit=50)
    media = [json.loads(line) for line in asker.control("GET", "truth?media=1").body.splitlines()]
    scanned = [
        {"account_id": account["id"], "surface": surface, "item": item}
        for account in accounts
        for surface in ("posts", "stories")
        for item in asker.scan_media(account["id"], surface, limit=50)
    ]
    assert media == scanned


def test_truth_of_another_key(asker: Asker) -> None:
    lines = asker.control("GET", "truth?key=sandbox-one-account-key").body.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [asker.account_id(0)]
    assert asker.control("GET", "truth?key=nobody").status == 400


def test_the_truth_ignores_faults(asker: Asker) -> None:
    before = asker.control("GET", "truth?media=1").body
    asker.control("POST", "faults", [{"action": "extra_item_field"}, {"action": "too_many_items"}])
    asker.get()
    assert asker.control("GET", "truth?media=1").body == before
