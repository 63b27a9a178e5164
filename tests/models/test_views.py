from models.tables import SNAPSHOT
from models.views import views


def test_every_view_says_what_it_answers_and_is_one_query() -> None:
    found = views()
    assert [view.name for view in found] == ["freshness", "expired_accounts", "media_history"]
    for view in found:
        assert view.comment.endswith(".")
        assert "--" not in view.comment + view.select
        assert ";" not in view.select
        assert view.select.startswith(("SELECT", "WITH"))


def test_no_view_takes_the_name_of_a_table() -> None:
    assert not {view.name for view in views()} & SNAPSHOT.tables.keys()
