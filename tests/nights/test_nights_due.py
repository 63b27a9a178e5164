"""`sync --due` as cron starts it: what is due is scanned, and when nothing is, one line says when something is."""

import pytest

from tests.api.listed import daily
from tests.nights.conftest import Operator


def test_two_days(operator: Operator) -> None:
    service = operator.connect(accounts=2, feeds={1: daily(3), 2: daily(3)})
    operator.set(fresh_within="posts=2d,stories=6h")
    made = dict[int, int]()
    for hour in range(0, 49, 6):
        before = len(service.requests)
        done = operator.run("sync", "--due")
        if len(service.requests) > before:
            made[hour] = len(service.requests) - before
        else:
            assert done.text.startswith("Nothing is due before ")
        operator.clock.days(6 / 24)
    # The catalogue and the stories, of which there are none, once a day.
    assert made == {0: 5, 24: 3, 48: 5}
    assert operator.ask("SELECT selection, count(*) FROM runs WHERE kind = 'sync' GROUP BY ALL") == [("due", 3)]


def test_nothing_due_is_said_and_planned(operator: Operator) -> None:
    service = operator.connect(accounts=1, posts=1)
    operator.night()
    operator.clock.days(-0.5)
    asked = len(service.requests)
    nothing = operator.run("sync", "--due", "--json")
    assert nothing.json() == {
        "state": "nothing_to_do",
        "exit_code": 0,
        "detail": "Nothing is due before 2126-03-02 02:15 UTC. To sync now, run `gramhouse sync`.",
    }
    assert operator.run("sync", "--due", "--plan").stdout.splitlines()[-1] == (
        "0 scans would run, about 0 requests; 2 would not (not_due)."
    )
    assert len(service.requests) == asked
    explained = operator.run("explain", "user_1").text
    assert ("2126-03-02 02:15" in explained, "goal" in explained) == (True, True), explained
    assert operator.run("accounts", "--json").json()["accounts"][0]["due_at"].startswith("2126-03-02T02:15")


@pytest.mark.parametrize(
    ("setting", "value", "fix"),
    [
        ("stories", "15 */6 * * *", "unknown setting"),
        ("fresh_within", "stories=24h", "use one"),
    ],
)
def test_what_cannot_be_set_is_refused(operator: Operator, setting: str, value: str, fix: str) -> None:
    operator.connect()
    operator.set(**{setting: value})
    text = operator.run("sync", "--due", code=2).text
    assert (f"GRAMHOUSE_{setting.upper()}" in text, fix in text) == (True, True)
