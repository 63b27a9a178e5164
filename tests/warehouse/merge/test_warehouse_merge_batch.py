import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import connectors.warehouse
from tests.warehouse.rig import POSTS, Item, Rig, Scan, at

ROOT = Path(connectors.warehouse.__file__).parent
MODULES = sorted(
    [*(ROOT / "merge").glob("[a-z]*.py"), *(ROOT / "ingest").glob("[a-z]*.py"), ROOT / "runs" / "closed_scans.py"]
)
LEFT = """
SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal
UNION ALL SELECT table_name FROM duckdb_tables() WHERE temporary
"""


def created(module: Path) -> Iterator[str]:
    """Yield the names of relations that a module creates for a merge."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="table" | "empty" | "view" | "put") | ast.Name(id="create"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name
            case _:
                pass


RELATIONS = set(chain.from_iterable(map(created, MODULES)))


def test_relations_are_found() -> None:
    assert {"finished", "media_stored", "missed", "gone_accounts", "arrived_items", "account_items"} <= RELATIONS


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_statements_read_only_relations_that_they_are_passed(module: Path) -> None:
    texts = (node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant))
    read = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING|TABLE)\s+(?:temp\.)?({'|'.join(RELATIONS)})\b")
    assert not [text for text in texts if isinstance(text, str) and read.search(text)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_statements_read_no_session_variables(module: Path) -> None:
    assert "getvariable" not in module.read_text()


def test_a_merge_leaves_no_temporary_relations(rig: Rig) -> None:
    days: list[list[Item]] = [[{"id": "1", "a": 1}, {"id": "2"}], [{"id": "1", "a": "x", "b": [{"c": 1}]}, {}]]
    for number, items in enumerate(days):
        scan = Scan(POSTS, f"scan-{number}", at(number))
        rig.land(scan.page(items, at(number), last=True))
        rig.merge()
        assert rig.rows(LEFT) == []
