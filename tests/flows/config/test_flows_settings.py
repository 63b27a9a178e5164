"""Settings and mapping: each from environment and file, one line for every invalid value, never with the key."""

import os
import re
import traceback
from pathlib import Path
from typing import get_args
from urllib.request import proxy_bypass

import httpx
import pytest

from flows.config.environment import prefect_api_url, set_environment
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from models.mapping import BUILT_IN, ColumnMapping, Reading

SECRET = "canary-51e2"
FILE = Path("gramhouse.toml")

# One of each type.
RIGHT = [
    ("base_url", "https://api.example.com/", "https://api.example.com"),
    ("api_key", SECRET, SECRET),
    ("snapshot", "a/s.db", "a/s.db"),
    ("report_url", "https://x.example/a/r.html?v=1", "https://x.example/a/r.html?v=1"),
    ("hide", "caption, ig_username:hash", ("caption", "ig_username:hash")),
    ("scan_expired", True, True),
    ("fresh_within", "posts=2d", "posts=2d"),
    ("scheduler", "tls://scheduler:8786", "tls://scheduler:8786"),
    ("due", "off", "off"),
    *(("nightly", cron, cron) for cron in ("0 3 * * mon-FRI", "0 0 29 2 *", "1-11,11 */3 */2 JUL 1-5/2")),
    ("time_zone", "Europe/Berlin", "Europe/Berlin"),
    ("notify", "slack-webhook/on-call, custom-webhook/ops", ("slack-webhook/on-call", "custom-webhook/ops")),
]

NUMBERS = [
    name
    for name, field in Settings.model_fields.items()
    if {int, float} & {field.annotation, *get_args(field.annotation)}
]
PATHS = ("api_key_file", "prefect_home", "raw", "report", "snapshot", "warehouse")

# A setting, a value, and a part of the line that refuses it. Addresses are not shown: they may hold a secret.
WRONG = [
    ("base_url", f"http://api.example.com/?key={SECRET}", ""),
    ("base_url", "127.0.0.1:8801", "this machine with http://. Fix: change it, or remove it."),
    ("base_url", "https://a.example/api/v1/x", "continues after /api/v1. Fix: remove /x."),
    ("report_url", "https://x.example/) [y](z", "it is not a web address"),
    *(
        ("nightly", cron, "not a valid cron expression (got ")
        for cron in ("at two", "60 * * * *", "0 0 30 2 *", "@daily")
    ),
    ("fresh_within", "reels=1d", "'reels=1d' is no goal"),
    ("mapping", '{"ignore": ["$."]}', ""),
    ("mapping", '{"a":' * 5000, "recursion limit"),
    ("hide", "caption:hsh", ""),
    ("concurrency", "0", "it must be greater than or equal to 1 (got '0'). Fix: change it, or remove it."),
    ("max_wait", "inf", "it must be less than or equal to 31622400 (got 'inf'). Fix: change it, or remove it."),
    ("max_wait", "1h", "it must be a number (got '1h'). Fix: write one. Longest wait in seconds of a run"),
    ("scan_expired", "maybe", "(got 'maybe'). Fix: change it, or remove it."),
    ("scheduler", "tcp://10.0.0.1:8786", "needs TLS"),
    *((name, "9" * 30, ": it must be ") for name in NUMBERS),
    *((name, "~nosuchuser/a.b", "the home directory ~nosuchuser does not exist") for name in PATHS),
    ("notify", "a\udcff", ": it is not UTF-8. Fix: "),
    ("time_zone", f"x{SECRET}", "it is not a time zone. Fix: "),
]


def refused(settings: dict[str, object] | None = None, *, key: bool = False) -> list[str]:
    """Return the lines with which the settings, or the API key, are refused. None has the key."""
    with pytest.raises(SettingsError) as raised:
        load(**(settings or {})).key() if key else load(**(settings or {}))
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    return str(raised.value).splitlines()


@pytest.mark.parametrize(("name", "given", "read"), RIGHT)
def test_each_type_of_setting_is_read(monkeypatch: pytest.MonkeyPatch, name: str, given: object, read: object) -> None:
    def found() -> object:
        return load().key().get_secret_value() if name == "api_key" else getattr(load(), name)

    FILE.write_text(f"{name} = {str(given).lower() if isinstance(given, bool) else repr(given)}\n")
    assert found() == read
    FILE.unlink()
    monkeypatch.setenv(f"GRAMHOUSE_{name.upper()}", f"\ufeff{given}\r\n")
    assert found() == read


def test_options_override_the_environment_which_overrides_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    FILE.write_text("page_size = 1\nconcurrency = 1\nmax_wait = 1\n")
    variables = {"GRAMHOUSE_PAGE_SIZE": "2", "gramhouse_concurrency": "2", "GRAMHOUSE_WORKERS": "", "GRAMHOUSE_X": " "}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    read = load(page_size=3, concurrency=None, snapshot="~/s.duckdb")
    assert (read.page_size, read.concurrency, read.max_wait, read.workers) == (3, 2, 1, 0)
    assert read.snapshot == str(Path("~/s.duckdb").expanduser())
    assert read.model_fields_set == {"page_size", "concurrency", "max_wait", "snapshot"}, "empty means not set"
    [line] = refused({"page_size": 0})
    assert re.match(r"--page-size: .* \(got '0'\)\. Fix: ", line)
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert prefect_api_url() is None


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_each_invalid_value_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str, given: str, message: str) -> None:
    monkeypatch.setenv("GRAMHOUSE_API_KEY", SECRET)
    monkeypatch.setenv(f"GRAMHOUSE_{name.upper()}", given)
    [line] = refused()
    assert re.fullmatch(rf"GRAMHOUSE_{name.upper()}\b[^;]*[^.;]\. Fix: [^;]+\.", line)
    assert message in line


# A part of one of the lines that refuse a file.
WRONG_FILES = [
    ("page_size = x\n", "gramhouse.toml is not valid TOML (line 1). Fix: correct the file (texts are in quotes)"),
    (f"concurrency = {'9' * 5000}", "gramhouse.toml is not valid TOML. Fix:"),
    ("pagesize = 1", "gramhouse.toml: pagesize: unknown setting. Did you mean page_size? Fix: "),
    ("\ufeff\r\npage_size = 99\r\n", "gramhouse.toml: page_size: "),
    (f"api_key = [{SECRET!r}]\nconcurrency = 'many'", "gramhouse.toml: api_key: "),
    (f"api_key = {{ value = {SECRET!r} }}", "gramhouse.toml: api_key: "),
    (f"api_key = '{SECRET}", "gramhouse.toml is not valid TOML. Fix:"),
    (f"api_key = {SECRET!r}\napi_key_file = '/{SECRET}\\u0000'\nconcurrency = 'x'", "gramhouse.toml: concurrency: "),
    (f"apikey = {SECRET!r}", "gramhouse.toml: apikey: unknown setting. Did you mean api_key? Fix: "),
    (None, "gramhouse.toml cannot be read: Is a directory. Fix:"),
    ("mapping = 5", "mapping: "),
    ('[mapping]\nignore = [""]', "mapping.ignore.0: '$.' is not a path"),
    ('[mapping.columns.caption]\npath = "$.x"', "caption.path: unknown setting. Did you mean paths? "),
    ('[mapping.columns.caption]\npaths = ["$.x"]\ntype = "count"', "caption is read as text"),
    ('[mapping.columns.overflow]\npaths = ["$.x"]', "overflow is a column that gramhouse fills itself"),
    ('[mapping.columns.alt]\npaths = ["$.x"]\ntype = "colour"', "mapping.columns.alt.type: "),
    ('[mapping.columns.select]\npaths = ["$.x"]', "'select' is not a valid column name"),
]


@pytest.mark.parametrize(("content", "message"), WRONG_FILES)
def test_each_invalid_entry_of_a_file_is_reported_in_its_own_line(content: str | None, message: str) -> None:
    if content is None:
        FILE.mkdir()
    else:
        FILE.write_text(content, encoding="utf-8")
    lines = refused()
    assert all(re.match(r"gramhouse\.toml\b.*[.?]$", line) for line in lines)
    assert any(message in line for line in lines)


def test_the_mapping_in_the_docs_works_as_described() -> None:
    page = Path(__file__).parents[3] / "docs" / "mapping.md"
    FILE.write_text(page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0], encoding="utf-8")
    mapping = load().media_mapping()
    assert mapping.media_id == ("/uuid", *BUILT_IN.media_id)
    assert mapping.children == ("/slides", *BUILT_IN.children)
    assert mapping.count_words == ("bookmarked", *BUILT_IN.count_words)
    assert (mapping.ignore, mapping.content) == (("/fetched_at", "/meta/*"), ("/profile_link",))
    built_in, columns = ({each.column: each for each in one.columns} for one in (BUILT_IN, mapping))
    assert columns.keys() - built_in.keys() == {"alt_text"}
    assert columns["caption"].paths == ("/title/text", *built_in["caption"].paths)
    assert columns["published_at"].paths == ("/when",)
    assert mapping.columns[-1] == ColumnMapping("alt_text", Reading.TEXT, ("/accessibility/label",))
    assert {each.column: each.paths[0] for each in mapping.child_columns}["media_url"] == "/src"
    FILE.write_text("[mapping]\nignore = ['a.b', '$.meta.*', '/x.y/*/z', 'a.b', '*.at_*']")
    assert load().media_mapping().ignore == ("/a/b", "/meta/*", "/x.y/*/z", "/*/at_*")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f"\ufeff{SECRET}\r\n".encode(), ""),
        (f"\n\n{SECRET}\u00a0\u200b\n".encode(), ""),
        (f"{SECRET}\n{SECRET}".encode(), "GRAMHOUSE_API_KEY_FILE: the API key "),
        (SECRET.encode("utf-16-le"), "invalid in a header"),
        (SECRET.encode("latin-1") + b"\xe9", "invalid in a header"),
        (b"", "is empty"),
        (None, "No such file or directory. Fix: set it to a text file with the key."),
    ],
)
def test_a_key_file_has_one_key_or_one_line_says_why_not(content: bytes | None, why: str) -> None:
    if content is not None:
        Path("key").write_bytes(content)
    if why:
        # The name of a file that is missing may be the key itself.
        [line] = refused({"api_key_file": "key" if content is not None else SECRET}, key=True)
        assert why in line
        assert "GRAMHOUSE_API_KEY_FILE" in line
    else:
        assert load(api_key_file=Path("key")).key().get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("GRAMHOUSE_CONCURENCY", "Did you mean GRAMHOUSE_CONCURRENCY? "),
        ("gramhouse_base_uri", "Did you mean GRAMHOUSE_BASE_URL? "),
        ("GRAMHOUSE_QQQ", ""),
        ("GRAMHOUSE_PORT", "Did you mean GRAMHOUSE_REPORT? "),
    ],
)
def test_a_mistyped_variable_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str, meant: str) -> None:
    for name in ("SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "UI_PORT_80_TCP_PROTO"):
        monkeypatch.setenv(f"GRAMHOUSE_{name}", "tcp://10.0.0.1:80")
    load()
    monkeypatch.setenv(variable, SECRET)
    assert refused() == [f"{variable}: unknown setting. {meant}Fix: correct or remove it (docs/settings.md)."]


def test_prefects_clients_reach_this_machine_whatever_proxies_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    for name, value in {"ALL_PROXY": "http://127.0.0.1:9", "NO_PROXY": "api.example.com"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    set_environment({})
    assert all(proxy_bypass(f"{host}:4200") for host in ("127.0.0.1", "localhost", "api.example.com"))
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            assert client._transport_for_url(httpx.URL(f"http://{host}:4200/api")) is client._transport  # noqa: SLF001
