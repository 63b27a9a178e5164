"""`gramhouse forget` leaves no trace of an account in any file, even if it is killed at any time."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import duckdb
import httpx
import pytest
from msgspec.structs import replace

from connectors.state.database import open_state_read_only, state_path
from connectors.state.identity import read_erasure
from connectors.state.inbox import read_checkpoints, read_cooldowns
from connectors.state.runs import warn
from connectors.warehouse.maintenance.compact_parts import compact_parts
from connectors.warehouse.storage.holder import hold
from models.checkpoint import Landing, ScopeCooldown
from models.feeds import CATALOGUE, media
from models.runs import Finding, Outcome, OutcomeKind, Severity
from tests.harness.machine import BEGINNING, Machine
from tests.harness.points import Crash
from tests.operator import Cli, Done, Operator
from tests.security.canary import everything, tells
from tests.warehouse.rig import BEN, POSTS, STORIES, account, at, opened_with_state

# The account that is forgotten, as the API spells it; its stored id is in lower case.
ID = "0B6F7C1E-52A4-4D1B-9A53-2F1D3F0C8E11"
NAME = "canary.nightingale"
EARLIER = "canary.sparrow"
PUBLIC = "k3Xw9QbT5mZa"
CAPTION = "the canary sings in this caption and in no other"
SECRETS = (ID, ID.lower(), UUID(ID).hex, NAME, EARLIER, PUBLIC, CAPTION)

STORED = {
    "accounts": 1, "account_periods": 4, "closed_scans": 1, "media": 4, "media_counts": 2, "media_versions": 1,
    "checkpoints": 2, "cooldowns": 1, "quarantine": 4, "run_outcomes": 1, "raw_versions": 5, "scan_findings": 1,
}  # fmt: skip


def left_in(folder: Path) -> set[tuple[str, str]]:
    """Return the secrets that are in a folder, each with the file; no code of gramhouse searches."""
    return {
        (name, secret)
        for name, content in everything(folder)
        for secret in SECRETS
        if tells(content, secret) or UUID(ID).bytes in content
    }


def _item(number: int, **more: object) -> dict[str, object]:
    return {"id": f"{number}", "owner": {"id": ID, "username": NAME}, "caption": CAPTION, **more}


def _fill(folder: Path) -> None:
    """Write a warehouse in which the account is in every table, in replaced parts, and in pages that are not merged."""
    children = [{"id": "c1", "media_url": f"https://cdn.example/{NAME}/1"}, {"id": "c2"}]
    other = media(BEN, "posts")
    both = [account(BEN, name="ben") | {"public_id": "k3Xw9QbT5mZb"}]
    tagged = {"children": {"data": children}, "tags": [{"name": NAME}]}
    with opened_with_state(folder / "w.duckdb") as rig:
        # Otherwise a search of the file's bytes would prove nothing.
        rig.db.execute("SET force_compression = 'uncompressed'")
        rig.begin_run("backfill", selection=f"{NAME} (posts)", reason=f"{NAME.upper()}, and ben, asked for {EARLIER}.")
        rig.full_scan(account(ID, name=EARLIER), *both, partition=CATALOGUE)
        rig.full_scan(account(ID, name=NAME, status="token_expired"), *both, partition=CATALOGUE)
        rig.full_scan(_item(1, like_count=1, **tagged), _item(2), partition=POSTS)
        rig.full_scan({"id": "9", "caption": "of another account", "tags": []}, partition=other)
        rig.wait(24)
        twice = _item(1, like_count=2, **tagged) | {"caption": f"{CAPTION}, twice"}
        rig.full_scan(twice, partition=POSTS)
        compact_parts(rig.db, rig.files.raw, now=rig.now, before=None)
        rig.begin(POSTS).page(_item(3, tags=[{"name": NAME}]), {"id": None, "caption": CAPTION}, cursor="next")
        for partition in (POSTS, other):
            failed = Outcome(partition, "run-1", OutcomeKind.FAILED, rig.now, rig.now, detail=f"No {ID}.")
            rig.seq += 1
            rig.inbox.append(Landing(failed.partition, failed.run_id, outcomes=(failed,)))
        rig.begin(CATALOGUE).page(account(ID, name=NAME) | {"public_id": 5}, {"ig_username": NAME}, cursor="next")
        rig.begin(other).close()
        rig.inbox[-1] = replace(rig.inbox[-1], body=f"<{ID}>".encode())
        rig.merge()
        warning = Finding("a_code", Severity.WARNING, f"Account {ID} is odd", f"ask {NAME}")
        rig.files.state.write(warn, "run-1", [warning])
        rig.begin(POSTS).page(cursor="next")
        rig.begin(STORIES).page(_item(4), cursor="next")
        for account_id in (ID.lower(), BEN):
            rig.land(ScopeCooldown(f"selected_account:{account_id}", at(90), rig.now))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    _fill(folder)
    return folder


@pytest.fixture
def folder(filled: Path, run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001
    """A folder with a warehouse, which is that of the settings, a report, and what killed processes may leave."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", "w.duckdb")
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", "s.duckdb")
    (tmp_path / "report.html").write_text(f"<!doctype html>\n<!-- gramhouse report -->\n<td>{NAME}</td>")
    for name in (".report.html.next", ".s.duckdb.next", ".s.duckdb.download"):
        (tmp_path / name).write_text(f'{{"detail": "{NAME}"}}')
    (tmp_path / "w.duckdb.tmp").mkdir()
    (tmp_path / "w.duckdb.tmp" / "duckdb_temp_storage-0.tmp").write_text(CAPTION)
    return tmp_path


def _stored(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "w.duckdb"), read_only=True) as db:
        return db.execute(query).fetchall()


def _is_pending(folder: Path) -> bool:
    with open_state_read_only(state_path(folder / "w.duckdb")) as state:
        return state is not None and bool(state.read(read_erasure).accounts)


def _items(folder: Path) -> int:
    [(items,)] = _stored(folder, f"SELECT count(*) FROM core.media WHERE account_id = '{ID.lower()}'")
    return int(items)


@pytest.mark.parametrize("named", [f" @{NAME.upper()} ", pytest.param(UUID(ID).hex, marks=pytest.mark.long)])
def test_nothing_of_a_forgotten_account_is_left_in_any_file(folder: Path, run_cli: Cli, named: str) -> None:
    before = left_in(folder)
    assert {secret for _, secret in before} >= {ID.lower(), NAME, PUBLIC, CAPTION}
    assert ("w.duckdb", CAPTION) in before
    code, out, err = run_cli("forget", named, "--yes", "--json")
    receipt = json.loads(out)
    assert (code, receipt["exit_code"]) == (0, 0), err
    assert (receipt["account_ids"], receipt["removed"]) == ([ID.lower()], STORED)
    assert left_in(folder) == set()
    written = {Path(path).name for path in receipt["rewritten"]}
    assert written >= {"w.duckdb", "w.duckdb.state.sqlite", "s.duckdb", "report.html"}
    assert _stored(folder, "SELECT media_id FROM core.media") == [("9",)]
    assert _stored(folder, "SELECT detail FROM core.run_outcomes WHERE detail IS NOT NULL") == [("No forgotten.",)]
    with open_state_read_only(state_path(folder / "w.duckdb")) as state:
        assert state is not None
        assert [*state.read(read_cooldowns, now=at(0))] == [f"selected_account:{BEN}"]
        # Its cursor may contain the account.
        assert CATALOGUE not in state.read(read_checkpoints, [""])
    assert _stored(folder, "SELECT selection, reason FROM core.runs") == [
        ("forgotten (posts)", "forgotten, and ben, asked for forgotten.")
    ]
    assert json.loads(run_cli("query", "SELECT media_id FROM raw_media", "--json")[1])["rows"] == [{"media_id": "9"}]
    assert NAME not in (folder / "report.html").read_text()


@pytest.mark.parametrize("stride", [61, pytest.param(5, marks=pytest.mark.long)])
def test_an_erasure_that_is_killed_at_each_step_is_completed_and_told_of_until_then(
    folder: Path, run_cli: Cli, stride: int
) -> None:
    settings = {"GRAMHOUSE_WAREHOUSE": "w.duckdb", "GRAMHOUSE_SNAPSHOT": "s.duckdb"}
    operator = Operator(folder, settings, here=True, cwd=folder)
    machine = Machine(operator, now=(datetime.now(UTC) - BEGINNING).total_seconds())

    def forget(nth: int) -> Done | None:
        """Forget the account, by its name, in a process that is killed at its nth statement or change of a file."""
        done = machine.run(
            *("forget", NAME, "--yes", "--json"),
            random=Random(nth),
            transport=httpx.AsyncBaseTransport(),
            crash=Crash(nth),
        )
        # The folder is another one with the same name.
        os.chdir(folder)
        return done

    step = 1
    while _items(folder):
        assert forget(step) is None
        step += stride
    assert "An account is not completely erased" in run_cli("publish").stderr
    done = run_cli("status", "--json")
    assert (done.code, "unfinished_erasure" in done.json()["attention"]) == (3, True)
    for command in ("status", "doctor"):
        assert "An account is not completely erased" in run_cli(command).stdout
    assert "is not completely erased yet" in run_cli("forget", ID, "--undo").stderr
    while (last := forget(step)) is None:
        step += stride
    # The receipt has the rows that were erased before the kills, too. A kill after that leaves nothing to do.
    told = last.code, last.json().get("removed")
    assert told == (0, STORED) or (stride == 5 and told == (2, None))
    assert step > 200
    assert left_in(folder) == set()
    assert run_cli("forget", ID, "--yes", "--json").json()["removed"] == {}
    assert not _is_pending(folder)
    assert "is not the id of a forgotten account" in run_cli("forget", NAME, "--undo").stderr
    assert run_cli("forget", ID, "--undo").code == 0


def test_without_yes_it_says_what_would_be_erased_and_erases_nothing(folder: Path, run_cli: Cli) -> None:
    for named in (NAME, PUBLIC):
        code, out, err = run_cli("forget", named)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{NAME} (account {ID.lower()}) and 4 items would be erased everywhere" in err
        assert "Fix: add --yes." in err
    assert _items(folder) == 4


def test_wrong_accounts_and_held_warehouses_are_refused(folder: Path, run_cli: Cli) -> None:
    for unknown in ("nobody", "99999999-9999-4999-8999-999999999999"):
        code, _, err = run_cli("forget", unknown, "--yes")
        assert (code, f"There is no account '{unknown}'" in err) == (2, True)
    file = folder / "w.duckdb"
    with hold(file, "gramhouse sync", since="then", pause=lambda _: None), duckdb.connect(str(file)) as db:
        code, _, err = run_cli("forget", NAME, "--yes")
        assert (code, "is held by gramhouse sync" in err, "not completely erased" in err) == (4, True, False)
        db.execute("UPDATE core.accounts SET ig_username = 'both'")
    code, _, err = run_cli("forget", "both", "--yes")
    assert (code, "More than one account is named 'both'" in err, BEN in err) == (2, True, True)
    assert not _is_pending(folder)
