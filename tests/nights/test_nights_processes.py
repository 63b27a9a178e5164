"""Processes: threads that cannot be started, what listens on this machine, and Prefect's files."""

import asyncio
from contextlib import suppress

import duckdb
import psutil
import pytest
from distributed.comm.core import connect

from tests.api.faults import Action, Rule
from tests.nights.conftest import Operator
from tests.operator import killed_on_exit, wait_until


@pytest.mark.parametrize("error", ["Resource temporarily unavailable", "Cannot allocate memory"])
def test_no_advice_to_restore_a_backup_unless_the_file_is_damaged(operator: Operator, error: str) -> None:
    operator.connect(accounts=1, posts=1)
    operator.run("sync")

    def refuse(*_: object, **__: object) -> None:
        raise duckdb.IOException(f"IO Error: Could not create a thread: {error}")

    operator.monkeypatch.setattr(duckdb, "connect", refuse)
    text = operator.run("sync", code=1).text
    assert (error in text, "backup" in text) == (True, False)


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
    assert not operator.snapshot.exists()
