"""What is prepared for a fold changes nothing but its length."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.warehouse import preparing
from connectors.warehouse.connection import beside, connect
from connectors.warehouse.field_registry import write_mapping
from connectors.warehouse.fold import fold
from connectors.warehouse.landed import Cut, Landed
from connectors.warehouse.preparing import Preparing
from connectors.warehouse.run_counts import FoldCounts
from connectors.warehouse.segments import Segments, recover
from models.landing import Landing, ScopeHold, SetAside
from models.mapping_built_in import BUILT_IN
from models.partition import CATALOGUE
from tests.warehouse.house import POSTS, STORIES, T0, House, Walk, account, at

TABLES = ("core.media", "core.media_children", "core.media_metrics", "core.media_superseded", "core.accounts")
REST = ("core.quarantine", "core.fields", "core.walks", "core.run_outcomes", "ops.checkpoints", "ops.holds", "ops.seen")


class Home:
    """A warehouse and what lands in it; folds it as the writer does."""

    def __init__(self, house: House, landed: Landed) -> None:
        self.house = house
        self.landed = landed
        self.was_prepared: list[bool] = []

    def add(self, landings: Sequence[Landing]) -> None:
        self.landed.add(landings)
        if self.landed.is_to_be_prepared:
            self.landed.prepare()

    def fold(self, cut: Cut | None = None) -> FoldCounts:
        connection = self.house.connection
        cut = cut or self.landed.cut()
        with self.landed.taken(connection, cut), connection.begin():
            items = self.landed.stage(connection, cut)
            self.was_prepared.append(items is not None)
            return fold(connection, items)

    def prepared(self) -> list[str]:
        query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'gramhouse.prepared' ORDER BY ALL"
        return [str(name) for (name,) in self.house.rows(query)]

    def all_rows(self) -> list[list[tuple[object, ...]]]:
        return [sorted(self.house.rows(f"FROM {table}"), key=repr) for table in (*TABLES, *REST)]


@contextmanager
def home(path: Path, *, whole: bool = False) -> Iterator[Home]:
    with connect(path) as connection:
        recover(connection, path)
        with connection.begin():
            preparation = Preparing(beside(connection), whole=whole)
            landed = Landed(connection, Segments(connection, path, path.name), preparation)
        yield Home(House(connection), landed)


def night(hour: float, likes: int) -> list[Landing]:
    """Pages of every sort: of accounts, of media, empty, with records set aside, with unknown fields, and no pages."""
    posts, stories = Walk(POSTS, f"p{hour}", at(hour)), Walk(STORIES, f"s{hour}", at(hour))
    catalogue = Walk(CATALOGUE, f"c{hour}", at(hour))
    items = [
        {"id": str(n), "caption": f"é{n}", "like_count": likes + n % 2, "children": [{"id": "7"}]} for n in range(9)
    ]
    return [
        catalogue.page(
            [account(), {"id": 1}], at(hour), last=True, set_aside=(SetAside(1, "No account.", '{"id":1}'),)
        ),
        posts.page(items[:5], at(hour), unknown_fields=("paging",)),
        stories.page([], at(hour), last=True),
        Landing(hold=ScopeHold("catalogue", at(hour + 1))),
        posts.page([items[4], None, {"id": []}, *items[5:]], at(hour + 0.1), last=True),
    ]


def unprepared(path: Path, nights: Sequence[list[Landing]]) -> list[list[tuple[object, ...]]]:
    with home(path) as there:
        for landings in nights:
            there.add(landings)
            there.fold(there.landed.cut_unprepared())
        assert there.was_prepared == [False] * len(nights)
        return there.all_rows()


@pytest.fixture(params=[1, 400, 10**9], ids=["each page", "some pages", "all at once"])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "_AT_ONCE", request.param)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("whole", [False, True])
def test_a_fold_of_what_is_prepared_leaves_the_same(path: Path, *, whole: bool) -> None:
    nights = [night(1, 0), night(30, 1)]
    with home(path, whole=whole) as there:
        for landings in nights:
            for landing in landings:
                there.add([landing])
            there.fold()
        assert there.was_prepared == [True, True]
        assert there.prepared() == []
        found = there.all_rows()
    assert found == unprepared(path.with_name("other.duckdb"), nights)
    assert list(path.parent.glob("*.segment-*")) == []


@pytest.mark.parametrize("whole", [False, True])
def test_bodies_are_kept_where_they_are_read_again(path: Path, *, whole: bool) -> None:
    landings = night(1, 0)
    with home(path, whole=whole) as there:
        there.add(landings)
        cut = there.landed.cut()
        with there.house.connection.begin():
            assert there.landed.stage(there.house.connection, cut) is not None
        found = [str(body) for (body,) in there.house.rows("SELECT body FROM ops.staging ORDER BY seq")]
    bodies = [landing.page.body for landing in landings if landing.page is not None]
    assert found == (bodies if whole else [bodies[0], "", "", ""])


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "broken",
    [
        lambda: Walk(POSTS, "b", at(2)).page([], at(2), text='{"items":[{"id":"1"'),
        lambda: Walk(CATALOGUE, "b", at(2)).page([], at(2), text='{"items":[{'),
    ],
    ids=["media", "accounts"],
)
def test_where_a_page_cannot_be_read_nothing_is_prepared_and_the_next_time_it_is(
    path: Path, broken: Callable[[], Landing]
) -> None:
    first, second = [*night(1, 0), broken()], night(30, 1)
    with home(path) as there:
        for landings in (first, second):
            for landing in landings:
                there.add([landing])
            there.fold()
        assert there.was_prepared == [False, True]
        assert there.prepared() == []
        assert there.house.value("SELECT count(*) FROM core.quarantine WHERE reason = 'The page is not JSON.'") == 1
        found = there.all_rows()
    assert found == unprepared(path.with_name("other.duckdb"), [first, second])


def test_after_a_fold_that_failed_all_that_landed_is_taken_in_once(path: Path) -> None:
    first, second, third = night(1, 0), night(30, 1), night(60, 2)
    with home(path) as there:
        there.add(first)
        cut = there.landed.cut()
        there.add(second)
        with pytest.raises(RuntimeError), there.landed.taken(there.house.connection, cut):
            raise RuntimeError
        assert there.prepared() == []
        there.fold()
        there.add(third)
        there.fold()
        assert there.was_prepared == [False, True]
        found = there.all_rows()
    assert found == unprepared(path.with_name("other.duckdb"), [[*first, *second], third])


def test_what_was_cut_for_another_is_in_no_fold_twice(path: Path) -> None:
    first, second = night(1, 0), night(30, 1)
    with home(path) as there:
        there.add(first)
        cut = there.landed.cut_unprepared()
        with there.landed.taken(there.house.connection, cut), there.house.connection.begin():
            assert there.landed.stage(there.house.connection, cut) is None
        there.add(second)
        # The first is staged now, and in no table of items.
        there.fold()
        assert there.was_prepared == [False]
        assert there.prepared() == []
        found = there.all_rows()
    assert found == unprepared(path.with_name("other.duckdb"), [[*first, *second]])


def test_what_another_mapping_took_apart_is_taken_apart_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "_AT_ONCE", 1)
    with home(path) as there:
        connection = there.house.connection
        there.add(night(1, 0))
        with connection.begin():
            write_mapping(connection, replace(BUILT_IN, media_id=("/caption",)))
        there.fold()
        assert there.house.value("SELECT count(*) FROM core.media WHERE media_id LIKE 'é_'") == 9
        there.add(night(30, 1))
        there.fold()
        assert there.was_prepared == [False, True]
        assert there.house.value("SELECT count(*) FROM core.media") == 9


def test_a_fold_of_nothing_is_none(path: Path) -> None:
    with home(path) as there:
        assert there.landed.cut() == Cut((), None)
        there.add([])
        there.add([Landing(hold=ScopeHold("catalogue", T0))])
        assert there.fold() == FoldCounts()
        assert there.house.rows("SELECT scope FROM ops.holds") == [("catalogue",)]
