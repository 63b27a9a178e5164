"""Data of the API is never executed, breaks no layout, and is stored unchanged."""

import asyncio
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.queries.export import export
from connectors.warehouse.queries.reader import open_snapshot
from tests.api.faults import refuse
from tests.api.listed import ListedApi, uuid
from tests.operator import Cli
from tests.runs import synced

ODD = (
    "'; DROP TABLE core.media; --",
    '"; DROP TABLE core.media; --',
    "1); COPY (SELECT 1) TO '/tmp/x'; --",
    "/* */ -- $$ $1 ? :x %s {0} {{ x }}",
    "nul \x00 end",
    "cr\r\nlf\ttab\x0b\x0c\x85\u2028\u2029",
    "\x1b]0;title\x07\x1b[2J\x1b[31m\x9b31m",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\u202egnp.exe\u2066\u200b\ufeff\U000e0041",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) ![i](https://evil.example/i.png)",
    "```mermaid\ngraph TD; A-->B\n```",
    "=cmd|'/c calc'!A0",
    "../../../etc/passwd",
    "a/b\\c:d*e?f",
    "[bold red]x[/] [link=https://evil.example]y[/link] [/]",
    "%2e%2e%2f ${HOME} $(id) `id` ~",
    "\ufb01 \uff53\uff45\uff4c\uff45\uff43\uff54 \u0130 \u00df \U0001f468\u200d\U0001f469",
    "x" * 5000,
)
# An id that begins like an object or a list is invalid and goes to quarantine.
IDS = [f"{number} {text}" for number, text in enumerate(ODD)]


def item(number: int) -> dict[str, Any]:
    text = ODD[number]
    return {
        "id": IDS[number],
        "caption": text,
        "permalink": text,
        "media_type": text,
        "timestamp": text,
        text: number,
        "owner": {text: {text: text}},
        f"list {text}": [{text: text, "id": text}],
        "children": {"data": [{"id": text, text: text}]},
    }


def hostile() -> ListedApi:
    """An API with one account; every text, name, id and error it sends is unusual."""
    return ListedApi(
        accounts=1,
        change_accounts=lambda good: [
            *good, *({**good[0], "id": uuid(9), "ig_username": text, "public_id": text} for text in ODD)
        ],
        change_posts=lambda _: [item(number) for number in range(len(ODD))],
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with its raw store and snapshot after a run with the hostile API and a failed one."""
    folder = tmp_path_factory.mktemp("hostile")
    service = hostile()
    asyncio.run(synced(folder, service, page_size=50))
    service.fault = lambda asked: refuse(ODD[9], status=403) if asked.account_id else None
    service.clock.days(1)
    asyncio.run(synced(folder, service, page_size=50))
    return folder


@pytest.fixture
def snapshot(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(folder / "analytics.duckdb"), read_only=True) as db:
        yield db


def test_every_payload_is_kept_as_it_came(folder: Path, snapshot: duckdb.DuckDBPyConnection) -> None:
    with open_snapshot(folder / "analytics.duckdb", with_raw=True) as opened:
        of_items = "FROM media JOIN raw_media USING (account_id, surface, media_id)"
        rows = opened.db.execute(f"SELECT media_id, caption, payload {of_items}").fetchall()
    assert {media_id: json.loads(payload) for media_id, _, payload in rows} == {
        name: item(number) for number, name in enumerate(IDS)
    }
    assert {(media_id, caption) for media_id, caption, _ in rows} == set(zip(IDS, ODD, strict=True))
    assert snapshot.execute("SELECT count(*) FROM quarantine WHERE resource = 'accounts'").fetchone() == (len(ODD),)


def test_columns_of_odd_fields_have_plain_names(snapshot: duckdb.DuckDBPyConnection) -> None:
    names = {name for name, *_ in snapshot.execute("DESCRIBE media").fetchall()}
    assert len(names) > len(ODD)
    assert all(name.replace("_", "x").isalnum() and name == name.casefold() for name in names)


def test_csv_and_json_hold_the_data_exactly(run_cli: Cli, folder: Path) -> None:
    snapshot = ("--snapshot", str(folder / "analytics.duckdb"))
    asked = "SELECT media_id, caption, 'end' AS last FROM media WHERE media_id NOT LIKE '%' || chr(0) || '%'"
    head, *rows = csv.reader(io.StringIO(run_cli("query", asked, "--format", "csv", *snapshot)[1], newline=""))
    assert head == ["media_id", "caption", "last"]
    # Formulas are not escaped: data is exported unchanged; SECURITY.md mentions spreadsheets.
    assert {tuple(row) for row in rows} == {
        (name, text, "end") for name, text in zip(IDS, ODD, strict=True) if "\x00" not in text
    }
    out = run_cli("query", "SELECT media_id, payload FROM raw_media", "--json", *snapshot)[1]
    assert {row["media_id"] for row in json.loads(out)["rows"]} == set(IDS)


def test_data_cannot_steer_the_terminal(run_cli: Cli, folder: Path) -> None:
    for arguments in (
        *(["query", f"FROM {name}"] for name in ("media", "raw_media", "fields", "quarantine", "nonsense \x1b[31m")),
        *(["describe"], ["describe", "media"], ["describe", "nonsense\x1b[31m"]),
        *(["accounts"], ["runs"], ["status"], ["quarantine", "--limit", "99"]),
    ):
        _, out, err = run_cli(*arguments, "--snapshot", str(folder / "analytics.duckdb"))
        assert out + err
        # The joiner is that of emoji.
        assert (out + err).replace("\n", "").replace("\u200d", "").isprintable()
        assert "Traceback" not in err


def test_an_export_and_the_raw_store_stay_in_their_folders(folder: Path, tmp_path: Path) -> None:
    _, exported = export(folder / "analytics.duckdb", tmp_path / "out", with_raw=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    paths = [path.name for path in (tmp_path / "out").iterdir()]
    assert len(paths) == len(exported)
    assert all(set(path) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.") for path in paths)
    assert {path.name for path in folder.iterdir()} == {
        "warehouse.duckdb", "warehouse.duckdb.lock", "warehouse.duckdb.state.sqlite", "analytics.duckdb", "raw",
    }  # fmt: skip
    with duckdb.connect() as db:
        asked = db.execute(f"SELECT media_id FROM '{tmp_path}/out/media.parquet' WHERE surface = 'posts'").fetchall()
    assert {media_id for (media_id,) in asked} == set(IDS)
