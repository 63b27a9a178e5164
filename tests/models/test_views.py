from importlib.resources import files

import pytest

from models.tables import SNAPSHOT
from models.views import View, views

VIEWS = {view.name: view for view in views()}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_is_one_query_and_has_descriptions(view: View) -> None:
    for comment in (view.comment, *view.columns.values()):
        assert comment.endswith(".")
    assert view.columns
    assert "--" not in view.comment + view.select
    assert ";" not in view.select
    assert view.select.startswith(("SELECT", "WITH"))


def test_no_view_takes_the_name_of_a_table() -> None:
    assert not VIEWS.keys() & SNAPSHOT.keys()


def test_every_file_is_a_view() -> None:
    assert set(VIEWS) == {
        path.name.removesuffix(".sql") for path in files("models.views").iterdir() if ".sql" in path.name
    }
