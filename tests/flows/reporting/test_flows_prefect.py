"""What Prefect gets of a run: its page and its events, in which text from outside is never markup."""

import json

from markdown_it import MarkdownIt

from flows.reporting.message import list_events, to_markdown
from flows.reporting.words import code, plain
from models.runs import OutcomeKind, RunState
from tests.flows.reports import HOSTILE, failure, fields, hostile, report, stale, tokens


def test_external_values_on_a_page_are_text() -> None:
    page = to_markdown(hostile())
    blocks = MarkdownIt("commonmark", {"html": True}).parse(page)
    parts = [part for block in blocks for part in (block, *(block.children or ()))]
    assert {part.type for part in parts} & {"link_open", "image", "html_block", "html_inline", "fence"} == set()
    outside = "".join(part.content for part in parts if part.type == "text")
    for harm in ("evil", "script", "whoami", "channel", "everyone", "mermaid", "://", "www."):
        assert harm not in outside
    spans = [part.content for part in parts if part.type == "code_inline"]
    assert sum("<script>alert(1)</script>" in span for span in spans) >= 6
    assert all(char.isprintable() for char in page.replace("\n", "").replace("\N{NO-BREAK SPACE}", ""))
    heads = [line.lstrip("# ") for line in page.splitlines() if line.startswith("#")]
    assert heads == ["Partial", "Action required", "Warnings", "Information"]


def test_events_are_small_and_name_what_they_are_about() -> None:
    found = {"expired": tokens(*(f"user_{n}" for n in range(60))), "new_fields": fields("/mood")}
    run, token, drift = list_events(report(found))
    assert (token["event"], token["resource"]["gramhouse.newly_expired"]) == ("gramhouse.tokens", "yes")
    assert "user_19 and 40 more)." in token["payload"]["sentence"]
    listed = (token["payload"]["findings"][0], run["payload"]["findings"][0])
    assert [len(each["accounts"]) for each in listed] == [50, 50]
    assert (drift["event"], drift["payload"]["sentence"]) == ("gramhouse.drift", "1 new field: /mood (VARCHAR).")


def test_a_run_that_is_retried_raises_no_alarm_yet() -> None:
    data = {"expired": tokens("anna"), **stale("ben")}
    failed = report(data, state=RunState.FAILED, failure_groups=(failure(OutcomeKind.FAILED, "timeout"),))
    events = list_events(failed, "Retry 1 of 3 in 5 min (timeout)")
    assert [each["event"] for each in events] == ["gramhouse.retry", "gramhouse.tokens"]
    assert events[0]["payload"]["sentence"].startswith("Retry 1 of 3 in 5 min (timeout). 1 scan failed (timeout")
    of_the_last = [f"gramhouse.{name}" for name in ("run.failed", "tokens", "stale")]
    assert [each["event"] for each in list_events(failed)] == of_the_last


def test_external_values_contain_no_mentions_links_or_templates() -> None:
    for message in list_events(hostile()):
        written = json.dumps(message, ensure_ascii=False)
        texts = json.loads(written, object_pairs_hook=lambda pairs: [value for _, value in pairs])
        output = json.dumps(texts, ensure_ascii=False).replace("[", "").replace("]", "")
        assert not any(sign in output for sign in ("<", ">", "{", "}", "@", "`", "|", "*", "~", "://"))
        assert output.isprintable()
    assert [code(text) for text in ("anna", "a|`b`", " \n ", "x" * 200)] == [
        "`anna`", "`a¦'b'`", "` `", f"`{'x' * 79}…`"
    ]  # fmt: skip
    assert plain("<@U1> [a](https://b.example)") == "«(at)U1» (a)(https: //b.example)"
    assert all(len(plain(text)) < 120 for text in HOSTILE)
