"""What commands say: one clear line for each wrong input, and nothing that is not so; and what their processes open."""

import asyncio
from contextlib import suppress
from io import BytesIO, TextIOWrapper

import psutil
import pytest
from distributed.comm.core import connect

from tests.api.faults import Action, Rule
from tests.api.listed import daily
from tests.nights.conftest import Operator
from tests.operator import killed_on_exit, wait_until


def test_a_query_that_is_not_utf_8_is_one_line(operator: Operator) -> None:
    operator.connect(accounts=1, posts=1)
    operator.run("sync")
    for query in (b"SELECT \xff", b"\x80", b"SELECT 'caf\xe9'"):
        operator.monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(query), encoding="utf-8"))
        [line] = operator.run("query", "-", code=2).stderr.splitlines()
        assert "UTF-8" in line


def test_explain_does_not_promise_a_scan_of_an_unknown_status(operator: Operator) -> None:
    service = operator.connect(accounts=2, posts=1)
    operator.night()
    service.change_accounts = lambda accounts: [accounts[0], {**accounts[1], "status": "paused"}]
    operator.run("sync", code=None)
    [found] = operator.run("explain", "user_2", "--json").json()["found"]
    assert found["account"]["status"] == "paused"
    assert {(each["next_scan"], each["next_reason"]) for each in found["surfaces"]} == {("none", "unknown_status")}


def test_explain_names_the_scans_that_removed_an_item(operator: Operator) -> None:
    feed = daily(60, per_day=24)
    operator.connect(accounts=1, feeds={1: feed})
    operator.set(page_size="10", lookback_window="0")
    for night in range(5):
        if night == 3:
            del feed.posts[55]
        operator.night("--incremental", "--surface", "posts", code=None)
    assert operator.count("run_outcomes", "outcome = 'recent'") >= 2
    assert operator.count("media", "removed_at IS NOT NULL") == 1
    text = operator.run("explain", "1-55").text
    assert [each in text for each in ("Removed", "recent", "two complete scans")] == [True, True, False]


def find_listening(process: psutil.Process) -> set[str]:
    """Return the addresses on which a process and its children accept connections."""
    found = set()
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error, OSError):
            listening = [one for one in each.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
            found |= {f"tcp://127.0.0.1:{one.laddr.port}" for one in listening}
    return found


async def lets_in(address: str) -> bool:
    """Return whether a Dask process talks to a client that has no credentials."""
    try:
        comm = await connect(address, timeout=5)  # type: ignore[no-untyped-call]
        await comm.write({"op": "identity", "reply": True})
        return isinstance(await asyncio.wait_for(comm.read(), 5), dict)
    except (OSError, TimeoutError):
        return False


@pytest.mark.long
def test_no_worker_on_this_machine_lets_in_another_user(operator: Operator) -> None:
    service = operator.connect(accounts=2)
    service.sleep = asyncio.sleep
    service.script.replace([Rule(Action("delay", seconds=600), "media")])
    with killed_on_exit(operator.start("sync", "--workers", "2")) as process:
        wait_until(lambda: bool(service.requests) or process.poll() is not None, "a request")
        addresses = find_listening(psutil.Process(process.pid))
        open_to = [address for address in addresses if asyncio.run(lets_in(address))]
        process.terminate()
    assert addresses
    assert open_to == []


def test_the_address_in_the_active_profile_of_prefect_is_used(operator: Operator) -> None:
    operator.connect(accounts=2)
    nowhere = "http://127.0.0.1:9/api"
    profiles = f'active = "work"\n[profiles.work]\nPREFECT_API_URL = "{nowhere}"\n'
    (operator.folder / "profiles.toml").write_text(profiles)
    operator.here = False
    assert nowhere in operator.run("sync", code=1, PREFECT_HOME=str(operator.folder)).stderr
    (operator.folder / "profiles.toml").write_text('active = "work"\nprofiles = "work"\n')
    refused = operator.run("sync", code=2, PREFECT_HOME=str(operator.folder)).stderr
    assert "profiles.toml is not a file of Prefect profiles. Fix: " in refused
    assert not operator.snapshot.exists()
