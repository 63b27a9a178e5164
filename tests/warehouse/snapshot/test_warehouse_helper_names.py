"""Fields of items that have the names by which our own SQL calls its tables, columns and windows."""

import re
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.queries.export import export
from flows.reporting.page import write_page
from models.mapping import BUILT_IN, to_keys
from models.views import MEDIA, own_columns, views
from tests.warehouse.days import Item, ask, opened_days
from tests.warehouse.snapshot.test_warehouse_as_of import scan_nights

ROOT = Path(__file__).parents[3]
FOLDERS = ("models", "connectors/warehouse", "flows")

# `x AS name`, `name AS (`, `lambda name:`; uppercase words are types, as in CAST(x AS BIGINT).
NAMED = re.compile(r'\bAS "?([a-z_]\w*)|\b([a-z_]\w*) AS \(|\blambda ([a-z_]\w*):')

READ = {
    key for column in (*BUILT_IN.columns, *BUILT_IN.child_columns) for path in column.paths for key in to_keys(path)
}
READ |= {key for path in (*BUILT_IN.media_id, *BUILT_IN.children) for key in to_keys(path)}

# What of the views depends on the fields of items, the file or the clock.
OTHERWISE = {
    "fields": ["*"], "published": ["*"], "changes": ["columns"], "item_events": ["changes"],
    "media_superseded": ["columns"], "media_history": ["columns"], "freshness": ["stale_for", "age_seconds"],
}  # fmt: skip


def helper_names() -> list[str]:
    """All names of this kind in our SQL, without those of fields that the built-in mapping reads."""
    files = [file for folder in FOLDERS for kind in ("sql", "py") for file in (ROOT / folder).rglob(f"*.{kind}")]
    found = {"".join(names) for file in files for names in NAMED.findall(file.read_text(encoding="utf-8"))}
    return sorted(found - READ)


def made(folder: Path, first: Item, then: Item) -> dict[str, Any]:
    """Make a warehouse whose items have these fields, and a snapshot; return what it shows besides them."""
    with opened_days(folder) as days:
        scan_nights(days, folder, first, then)
        hidden = days.publish(hide=("caption", "ig_username:hash"))
        found = {"hidden": ask(hidden, "SELECT media_id, metric, value FROM media_metrics ORDER BY ALL")}
        snapshot = days.publish(may_show=True)
    for name, view in views().items():
        if columns := [one for one in view.columns if not {one, "*"} & {*OTHERWISE.get(name, ())}]:
            found[name] = ask(snapshot, f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL")
    return {**found, "report": write_page(snapshot, folder / "report.html").html}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is shown of the same items without these fields."""
    return made(tmp_path_factory.mktemp("plain"), {}, {})


@pytest.mark.long
# Every second name, so that all fit in the columns of a table.
@pytest.mark.parametrize(("first", "values"), [(0, ("a", "b")), (1, ("a", "b")), (0, ([1], [2, 3])), (1, ([1], [2]))])
def test_fields_with_the_names_of_our_sql_change_nothing_else(
    first: int, values: tuple[Any, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    names = helper_names()[first::2]
    assert made(tmp_path, *(dict.fromkeys(names, value) for value in values)) == expected
    snapshot = tmp_path / "analytics.duckdb"
    columns = sorted({name for name, *_ in ask(snapshot, "DESCRIBE media")} & {*names} - own_columns(MEDIA))
    assert {*columns} >= {"day", "gh_row", "one"} & {*names}
    chosen = ", ".join(f'"{name}"' for name in columns)
    # A list is JSON text.
    value = values[1] if isinstance(values[1], str) else str(values[1]).replace(" ", "")
    assert ask(snapshot, f"SELECT DISTINCT {chosen} FROM media WHERE surface = 'posts' AND media_id = '1'") == [
        (value,) * len(columns)
    ]
    export(snapshot, tmp_path / "export")
