"""`gramhouse forget` leaves no trace of an account in any file, even if it is killed at any time."""

import asyncio
import errno
import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import duckdb
import pytest

from connectors.state.database import State, open_state, open_state_read_only, state_path
from connectors.state.inbox import Inbox
from connectors.state.operations import read_operations
from connectors.state.runs import begin_run
from connectors.warehouse.maintenance import traces
from connectors.warehouse.raw.compaction import compact_parts
from connectors.warehouse.runs import ledger
from connectors.warehouse.storage.connection import Connection, connect
from connectors.warehouse.storage.durable import is_duckdb
from connectors.warehouse.storage.holder import hold
from flows.config.settings import load
from flows.engine.forgetting import forget_now
from models.page_commit import PageCommit, RejectedRecord, ScopeCooldown
from models.partition import CATALOGUE, media
from models.runs import Outcome, OutcomeKind, RunWarning
from tests.cli_runner import Cli
from tests.security.canary import everything, tells
from tests.warehouse.rig import BEN, POSTS, STORIES, Rig, Scan, account, at, give_state

# The account that is forgotten, as the API spells it; its stored id is in lower case.
ID = "0B6F7C1E-52A4-4D1B-9A53-2F1D3F0C8E11"
NAME = "canary.nightingale"
EARLIER = "canary.sparrow"
PUBLIC = "k3Xw9QbT5mZa"
CAPTION = "the canary sings in this caption and in no other"
SECRETS = (ID, ID.lower(), UUID(ID).hex, NAME, EARLIER, PUBLIC, CAPTION)

STORED = {
    "accounts": 1, "account_status_history": 2, "completed_scans": 1, "events": 1, "media": 4, "media_children": 2,
    "media_metrics": 2, "media_superseded": 1, "media_tags": 1, "missing": 1, "seen": 3, "checkpoints": 2,
    "cooldowns": 1, "quarantine": 4, "run_outcomes": 1, "raw_versions": 5,
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
    """Write a warehouse in which the account is in every table, in retired parts, and in pages that are not merged."""
    children = [{"id": "c1", "media_url": f"https://cdn.example/{NAME}/1"}, {"id": "c2"}]
    other = media(BEN, "posts")
    bad = account(ID, name=NAME) | {"status": 5}
    with connect(folder / "w.duckdb") as connection:
        # Otherwise a search of the file's bytes would prove nothing.
        connection.db.execute("SET force_compression = 'uncompressed'")
        rig = Rig(connection)
        both = [account(BEN, name="ben") | {"public_id": "k3Xw9QbT5mZb"}]
        rig.catalogue("c-1", 0, [account(ID, name=EARLIER), *both])
        rig.catalogue("c-2", 1, [account(ID, name=NAME, status="token_expired"), *both])
        rig.scan(
            POSTS, "p-1", 2, [_item(1, like_count=1, children={"data": children}, tags=[{"name": NAME}]), _item(2)]
        )
        rig.scan(other, "o-1", 2, [{"id": "9", "caption": "of another account", "tags": []}])
        rig.scan(POSTS, "p-2", 26, [_item(1, like_count=2, children={"data": children}, caption=f"{CAPTION}, twice")])
        compact_parts(connection, now=at(27))
        rig.scan(POSTS, "p-3", 28, [_item(3, tags=[{"name": NAME}]), {"id": None, "caption": CAPTION}], last=False)
        rig.land(
            PageCommit(outcomes=(Outcome(POSTS, "run-1", OutcomeKind.FAILED, at(28), at(29), detail=f"No {ID}."),)),
            Scan(CATALOGUE, "c-3", at(30)).page(
                [bad, {"ig_username": NAME}],
                at(30),
                rejected=(
                    RejectedRecord(0, "Its status is wrong.", json.dumps(bad), ID),
                    RejectedRecord(1, "It has no id.", json.dumps({"ig_username": NAME})),
                ),
            ),
            PageCommit(
                Scan(other, "o-2", at(30)).page([], at(30), rejected=(RejectedRecord(None, "?", f"<{ID}>"),)).page
            ),
        )
        rig.merge()
        with connection.begin():
            warning = RunWarning("a_code", 1, f"Account {ID} is odd.", f"Ask {NAME}.", makes_partial=False)
            ledger.warn(connection, "run-1", warning)
        give_state(connection)
    with open_state(state_path(folder / "w.duckdb")) as state:
        state.write(
            begin_run, "run-1", "backfill", pid=1, now=at(28), within=timedelta(), version="1",
            selection=f"{NAME} (posts)", reason=f"{NAME.upper()}, and ben, asked for {EARLIER}.",
        )  # fmt: skip
        Inbox(state).land(
            [
                PageCommit(cooldown=ScopeCooldown(f"selected_account:{ID.lower()}", at(90), at(29))),
                Scan(POSTS, "p-4", at(31)).page([], at(31)),
                Scan(STORIES, "s-1", at(31)).page([_item(4)], at(31)),
            ]
        )


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
        return state is not None and bool(state.read(read_operations))


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
    assert (code, receipt["exit_code"], receipt["found"]) == (0, 0, {}), err
    assert (receipt["account_ids"], receipt["removed"]) == ([ID.lower()], STORED)
    assert left_in(folder) == set()
    searched = {str(path) for path in folder.rglob("*") if path.is_file()}
    assert set(receipt["searched"]) == searched - {str(path) for path in folder.rglob("lock")}
    assert _stored(folder, "SELECT media_id FROM core.media") == [("9",)]
    assert _stored(folder, "SELECT selection, reason FROM core.runs") == [
        ("forgotten (posts)", "forgotten, and ben, asked for forgotten.")
    ]
    assert json.loads(run_cli("query", "SELECT media_id FROM raw_media", "--json")[1])["rows"] == [{"media_id": "9"}]
    assert NAME not in (folder / "report.html").read_text()


def _killed_at(nth: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child process that ends at its nth change of a file; return whether it ended before its end."""
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {0, 9}
        return code == 9
    left = nth

    def reach() -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(9)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            reach()
            return function(*arguments, **options)

        return call

    @contextmanager
    def begin(self: Connection) -> Iterator[None]:
        with in_transaction(self):
            yield
            reach()
        reach()

    in_transaction = Connection.begin
    try:
        with (
            patch.object(Connection, "begin", begin),
            patch.object(os, "fsync", counted(os.fsync)),
            patch.object(State, "write", counted(State.write)),
        ):
            for name in ("rename", "replace", "unlink"):
                setattr(Path, name, counted(getattr(Path, name)))
            work()
    except BaseException:  # noqa: BLE001 - a child must not continue with other tests
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _forget() -> None:
    asyncio.run(forget_now(load(), ID))


@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.long)])
def test_an_erasure_that_is_killed_at_each_step_is_completed(folder: Path, run_cli: Cli, stride: int) -> None:
    step = 1
    while _killed_at(step, _forget):
        step += stride
    assert step > 60
    assert left_in(folder) == set()
    assert not _is_pending(folder)
    assert "is not the id of a forgotten account" in run_cli("forget", NAME, "--undo")[2]
    assert run_cli("forget", ID, "--undo")[0] == 0


def test_after_a_kill_writers_status_and_doctor_warn_and_the_receipt_has_all_rows(folder: Path, run_cli: Cli) -> None:
    step = 20
    while _items(folder):
        assert _killed_at(step, _forget)
        step += 3
    assert "An account is not completely erased" in run_cli("publish")[2]
    code, out, _ = run_cli("status", "--json")
    assert (code, "unfinished_erasure" in json.loads(out)["attention"]) == (3, True)
    assert "An account is not completely erased" in run_cli("status")[1]
    assert "An account is not completely erased" in run_cli("doctor")[1]
    code, _, err = run_cli("forget", ID, "--undo")
    assert (code, "is not completely erased yet" in err) == (2, True)
    # It still knows the name.
    code, out, err = run_cli("forget", NAME, "--yes", "--json")
    assert (code, json.loads(out)["removed"], err) == (0, STORED, "")
    assert left_in(folder) == set()
    code, out, _ = run_cli("forget", ID, "--yes")
    assert (code, "Rows: none." in out, "nothing found" in out) == (0, True, True)


def test_it_asks_first(folder: Path, run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run_cli("forget", NAME)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "there is no terminal to ask for confirmation. Fix: add --yes." in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda: "n")
    code, _, err = run_cli("forget", PUBLIC)
    assert (code, "Nothing was erased." in err) == (1, True)
    assert f"Erase {NAME} (account {ID.lower()}) and 4 items everywhere? This cannot be undone. [y/N]" in err
    code, out, _ = run_cli("forget", PUBLIC, "--json")
    assert (code, json.loads(out)) == (
        1,
        {"state": "failed", "exit_code": 1, "message": "Nothing was erased.", "hint": None},
    )
    assert _items(folder) == 4


def test_wrong_accounts_and_held_warehouses_are_refused(folder: Path, run_cli: Cli) -> None:
    for unknown in ("nobody", "99999999-9999-4999-8999-999999999999"):
        code, _, err = run_cli("forget", unknown, "--yes")
        assert (code, f"There is no account '{unknown}'" in err) == (2, True)
    file = folder / "w.duckdb"
    with hold(file, "gramhouse sync", since="then", pause=lambda _: None), connect(file) as connection:
        code, _, err = run_cli("forget", NAME, "--yes")
        assert (code, "is held by gramhouse sync" in err, "not completely erased" in err) == (4, True, False)
        connection.db.execute("UPDATE core.accounts SET ig_username = 'both'")
    code, _, err = run_cli("forget", "both", "--yes")
    assert (code, "More than one account is named 'both'" in err, BEN in err) == (2, True, True)
    assert not _is_pending(folder)


def test_what_is_left_in_data_of_other_accounts_is_named(folder: Path, run_cli: Cli) -> None:
    with connect(folder / "w.duckdb") as connection:
        connection.db.execute("UPDATE core.media SET overflow = ? WHERE account_id = ?", [f'{{"/by":"{NAME}"}}', BEN])
        connection.db.execute("UPDATE core.media SET owner__id = ? WHERE account_id = ?", [ID, BEN])
        into = "INSERT INTO core.media_tags (account_id, surface, media_id, position, name)"
        connection.db.execute(f"{into} VALUES (?, 'posts', '9', 0, ?)", [BEN, NAME])
        # Words of gramhouse, and parts of values, are not the account's name.
        connection.db.execute("UPDATE core.media SET caption = ? WHERE account_id = ?", [f"a picture with {NAME}", BEN])
    (folder / "w.duckdb.old").write_bytes((folder / "w.duckdb").read_bytes()[:20_000])
    shutil.copy(folder / "w.duckdb", folder / "backup.duckdb")
    code, out, _ = run_cli("forget", NAME, "--yes", "--json")
    receipt = json.loads(out)
    found = {Path(path).name: places for path, places in receipt["found"].items()}
    assert (code, receipt["exit_code"], set(found)) == (3, 3, {"w.duckdb", "s.duckdb", "w.duckdb.old", "backup.duckdb"})
    assert "not searched" in str(found["w.duckdb.old"])
    in_tables = {"core.media.owner__id": 1, "core.media.overflow": 1, "core.media_tags.name": 1}
    assert found["w.duckdb"].items() >= in_tables.items()
    assert "core.media.caption" not in found["w.duckdb"]


def test_a_file_that_cannot_be_read_does_not_stop_it(
    folder: Path, run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "of-another-user").write_bytes(b"?")

    def refuses(path: Path) -> bool:
        if path.name == "of-another-user":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return is_duckdb(path)

    monkeypatch.setattr(traces, "is_duckdb", refuses)
    code, out, _ = run_cli("forget", NAME, "--yes", "--json")
    found = {Path(path).name: places for path, places in json.loads(out)["found"].items()}
    assert (code, found) == (3, {"of-another-user": {"not searched: Permission denied": 1}})
    assert not _is_pending(folder)


def test_the_surfaces_of_syncs_are_kept_if_the_account_is_called_like_one(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path / "w.duckdb") as connection:
        rig = Rig(connection)
        rig.catalogue("c-1", 0, [account(ID, name="stories")])
        rig.run("run-1", 1, selection="stories")
        rig.run("run-2", 2, kind="backfill", selection="stories (posts)")
        give_state(connection)
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", "w.duckdb")
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", "s.duckdb")
    assert run_cli("forget", "stories", "--yes")[0] == 0
    selections = _stored(tmp_path, "SELECT selection FROM core.runs ORDER BY seq")
    assert selections == [("stories",), ("forgotten (posts)",)]


def test_fields_that_are_called_like_the_account_are_named(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path / "w.duckdb") as connection:
        rig = Rig(connection)
        rig.catalogue("c-1", 0, [account(ID, name=NAME)])
        rig.scan(POSTS, "p-1", 1, [_item(1, tagged={NAME: {"x": 0.5}, f"{NAME}.too": {"x": 0.5}})])
        give_state(connection)
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", "w.duckdb")
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", "s.duckdb")
    code, out, _ = run_cli("forget", NAME, "--yes")
    assert (code, "What to do: docs/maintenance.md#forget-an-account" in out) == (3, True), out
    # The key, and what is within it.
    assert {line.strip() for line in out.splitlines() if line.startswith("    ")} == {
        f"{tmp_path / file}: core.fields.path (2)" for file in ("w.duckdb", "s.duckdb")
    }
