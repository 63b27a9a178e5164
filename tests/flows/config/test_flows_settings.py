"""Settings: each from environment and file, one line for every invalid value, and never the key in a message."""

import re
from pathlib import Path
from typing import Any, get_args
from urllib.request import proxy_bypass

import httpx
import pytest

from flows.config.errors import SettingsError
from flows.config.prefect_environment import environment, prefect_api_url
from flows.config.settings import Settings, load

SECRET = "canary-51e2"

RIGHT = [
    ("base_url", "https://api.example.com/", "https://api.example.com"),
    ("api_key", SECRET, SECRET),
    ("api_key_file", "k", Path("k")),
    ("warehouse", "a/w.db", Path("a/w.db")),
    ("snapshot", "a/s.db", "a/s.db"),
    ("raw", "a/raw", Path("a/raw")),
    ("report", "a/report.html", Path("a/report.html")),
    ("report_url", "https://x.example/a/r.html?v=1", "https://x.example/a/r.html?v=1"),
    ("hide", "caption, ig_username:hash", ("caption", "ig_username:hash")),
    ("concurrency", 7, 7),
    ("page_size", 9, 9),
    ("max_wait", 1.5, 1.5),
    ("requests_per_second", 0.5, 0.5),
    ("resume_within", 60, 60.0),
    ("scan_expired", True, True),
    ("busy_wait", 90, 90.0),
    ("stale_after", 3600, 3600.0),
    ("keep_runs", 30, 30),
    ("keep_raw", 90, 90),
    ("sync_mode", "incremental", "incremental"),
    ("lookback_window", 14, 14),
    ("full_refresh_every", 28, 28),
    ("full_refresh_budget", 500, 500),
    ("scheduler", "tls://scheduler:8786", "tls://scheduler:8786"),
    ("workers", 4, 4),
    ("nightly", "30 3 * * 1-5", "30 3 * * 1-5"),
    ("stories", "0 */4 * * *", "0 */4 * * *"),
    ("time_zone", "Europe/Berlin", "Europe/Berlin"),
    ("prefect_home", "a/p", Path("a/p")),
    ("prefect_port", 4300, 4300),
    ("notify", "slack-webhook/on-call, custom-webhook/ops", ("slack-webhook/on-call", "custom-webhook/ops")),
    ("credentials", "production", "production"),
]

NUMBERS = [
    name
    for name, field in Settings.model_fields.items()
    if {int, float} & {field.annotation, *get_args(field.annotation)}
]
PATHS = ("api_key_file", "prefect_home", "raw", "report", "snapshot", "warehouse")

# A setting, a value, and a part of the line that refuses it. Addresses are not shown: they may hold a secret.
CHANGE = "Fix: change it, or remove it."
WRONG = [
    ("base_url", "http://api.example.com", "use https"),
    ("base_url", "https://user:pass@x", ""),
    ("base_url", f"http://api.example.com/?key={SECRET}", ""),
    ("base_url", "127.0.0.1:8801", f"this machine with http://. {CHANGE}"),
    ("base_url", "https://a.example/api/v1/x", "continues after /api/v1. Fix: remove /x."),
    ("snapshot", "s3://bucket", ""),
    ("report_url", "https://x.example/) [y](z", "it is not a web address"),
    ("nightly", "at two", ""),
    ("mapping", '{"ignore": ["$."]}', ""),
    ("hide", "caption:hsh", ""),
    ("concurrency", "0", "it must be greater than or equal to 1 (got '0'). Fix: change it; the default is 16."),
    ("max_wait", "inf", "it must be less than or equal to 31622400 (got 'inf'). Fix: change it; the default is 3600."),
    ("stale_after", "0", "it must be greater than 0 (got '0'). Fix: change it; the default is 129600."),
    ("keep_raw", "soon", "it must be a valid integer"),
    ("scan_expired", "maybe", "(got 'maybe'). Fix: change it; the default is false."),
    ("sync_mode", "sometimes", ""),
    ("time_zone", SECRET, ""),
    *((name, "9" * 30, ": it must be ") for name in NUMBERS),
    *((name, "~nosuchuser/a.b", "the home directory ~nosuchuser does not exist") for name in PATHS),
    ("notify", "a\udcff", ": it is not UTF-8. Fix: "),
]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any setting
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value


def test_every_setting_is_tried_here() -> None:
    # The mapping has separate tests.
    assert {name for name, *_ in RIGHT} == set(Settings.model_fields) - {"mapping"}


@pytest.mark.parametrize(("name", "given", "read"), RIGHT)
def test_a_setting_comes_from_the_environment_or_the_file(
    monkeypatch: pytest.MonkeyPatch, name: str, given: object, read: object
) -> None:
    value = str(given).lower() if isinstance(given, bool) else repr(given)
    Path("gramhouse.toml").write_text(f"{name} = {value}\n", encoding="utf-8")
    assert _plain(getattr(load(), name)) == read
    Path("gramhouse.toml").unlink()
    monkeypatch.setenv(f"GRAMHOUSE_{name.upper()}", f"\ufeff{given}\r\n")
    assert _plain(getattr(load(), name)) == read


def test_options_override_the_environment_which_overrides_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gramhouse.toml").write_text("page_size = 1\nconcurrency = 1\nmax_wait = 1\n", encoding="utf-8")
    monkeypatch.setenv("GRAMHOUSE_PAGE_SIZE", "2")
    monkeypatch.setenv("GRAMHOUSE_CONCURRENCY", "2")
    read = load(page_size=3, concurrency=None)
    assert (read.page_size, read.concurrency, read.max_wait) == (3, 2, 1)


def test_empty_means_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_PAGE_SIZE", "")
    monkeypatch.setenv("GRAMHOUSE_NO_SUCH", " ")
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", " ")
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert (load().page_size, load().base_url) == (50, None)
    assert prefect_api_url() is None


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_each_invalid_value_is_reported_in_one_line_with_its_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, given: str, message: str
) -> None:
    monkeypatch.setenv("GRAMHOUSE_API_KEY", SECRET)
    monkeypatch.setenv(f"GRAMHOUSE_{name.upper()}", given)
    with pytest.raises(SettingsError) as raised:
        load()
    [line] = str(raised.value).splitlines()
    assert re.fullmatch(rf"GRAMHOUSE_{name.upper()}\b[^;]*[^.;]\. Fix: [^;]+(; the default is .+)?\.", line)
    assert message in line
    assert SECRET not in line
    assert "pass@" not in line


def test_a_file_may_have_a_byte_order_mark_and_line_ends_of_windows() -> None:
    text = f'\ufeffapi_key = "{SECRET}"\r\npage_size = 7\r\n'
    Path("gramhouse.toml").write_bytes(text.encode())
    read = load()
    assert (read.page_size, read.key().get_secret_value()) == (7, SECRET)
    Path("gramhouse.toml").write_bytes(text.replace("7", "99").encode())
    with pytest.raises(SettingsError, match=r"^gramhouse\.toml, line 2: page_size: "):
        load()


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"page_size = x\n", r"^gramhouse.toml is not valid TOML \(line 1\). Fix: correct the file"),
        (b"concurrency = " + b"9" * 5000, "^gramhouse.toml is not valid TOML. Fix:"),
        (b"hide = " + b"[" * 5000, "^gramhouse.toml is not valid TOML. Fix:"),
        (b"pagesize = 1", "pagesize: unknown setting; did you mean page_size"),
        (b"api_key = 123456", "gramhouse.toml, line 1: api_key: "),
        (None, "gramhouse.toml cannot be read: Is a directory. Fix:"),
    ],
)
def test_an_invalid_file_is_reported_in_one_line(content: bytes | None, output: str) -> None:
    if content is None:
        Path("gramhouse.toml").mkdir()
    else:
        Path("gramhouse.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=output) as raised:
        load()
    assert len(str(raised.value).splitlines()) == 1
    assert "123456" not in str(raised.value)


@pytest.mark.parametrize(("before", "after"), [("", "\n"), ("\ufeff", "\r\n"), ("\n\n", "\u00a0\u200b\n")])
def test_the_key_is_used_without_what_is_around_it(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    around = f"{before}{SECRET}{after}"
    Path("key").write_bytes(around.encode())
    assert load(api_key_file=Path("key")).key().get_secret_value() == SECRET
    monkeypatch.setenv("GRAMHOUSE_API_KEY", around)
    assert load().key().get_secret_value() == SECRET
    # The value of another setting is not shown if it contains the key.
    monkeypatch.setenv("GRAMHOUSE_TIME_ZONE", f"x{SECRET}")
    with pytest.raises(SettingsError) as raised:
        load()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f"{SECRET}\n{SECRET}".encode(), "GRAMHOUSE_API_KEY_FILE: the API key .* Fix: set it to a text file"),
        (SECRET.encode("utf-16-le"), "invalid in a header.* Fix: set it to "),
        (SECRET.encode("latin-1") + b"\xe9", "it is not text in UTF-8.* Fix: set it to "),
        (b"", "is empty.* Fix: set it to "),
        (None, "cannot be read .* Fix: set it to a text file"),
    ],
)
def test_a_key_file_without_a_key_is_one_line_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, why: str
) -> None:
    if content is not None:
        Path("key").write_bytes(content)
    monkeypatch.setenv("GRAMHOUSE_API_KEY_FILE", "key")
    with pytest.raises(SettingsError, match=why) as raised:
        load().key()
    assert len(str(raised.value).splitlines()) == 1
    assert SECRET not in str(raised.value)


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(SettingsError, match="set GRAMHOUSE_BASE_URL"):
        load().address()
    with pytest.raises(SettingsError, match="set GRAMHOUSE_API_KEY"):
        load().key()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("GRAMHOUSE_CONCURENCY", "; did you mean GRAMHOUSE_CONCURRENCY?"),
        ("GRAMHOUSE_KEY", "; did you mean GRAMHOUSE_API_KEY?"),
        ("gramhouse_base_uri", "; did you mean GRAMHOUSE_BASE_URL?"),
        ("GRAMHOUSE_QQQ", ". Fix: remove it, or see `gramhouse config` for the names."),
    ],
)
def test_a_mistyped_variable_is_refused_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, SECRET)
    with pytest.raises(SettingsError) as raised:
        load()
    assert str(raised.value).startswith(f"{variable}: unknown setting{meant}")
    assert len(str(raised.value).splitlines()) == 1
    assert SECRET not in str(raised.value)


def test_kubernetes_service_variables_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "UI_PORT_80_TCP_PROTO")
    for name, value in dict.fromkeys(names, "tcp://10.0.0.1:80").items():
        monkeypatch.setenv(f"GRAMHOUSE_{name}", value)
    load()
    monkeypatch.setenv("GRAMHOUSE_PORT", "80")
    with pytest.raises(SettingsError, match=r"^GRAMHOUSE_PORT: unknown setting"):
        load()


FILE = """\
# What the operator of this machine set.
base_url = "https://api.example.com"
page_size = 51
nottify = ["a"]

[mapping]
media_id = [
    "$.id",
    7,
]
[mapping.columns.likes]
path = ["$.likes"]
"""


NO_PAGE_SIZE = "it must be less than or equal to 50 (got '51'). Fix: change it; the default is 50."


def test_a_wrong_value_in_the_file_is_named_by_its_line() -> None:
    Path("gramhouse.toml").write_text(FILE, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        load()
    assert sorted(str(raised.value).splitlines()) == [
        "gramhouse.toml, line 11: mapping.columns.likes.paths: field required. Fix: change it, or remove it.",
        "gramhouse.toml, line 12: mapping.columns.likes.path: unknown setting; did you mean paths?",
        f"gramhouse.toml, line 3: page_size: {NO_PAGE_SIZE}",
        "gramhouse.toml, line 4: nottify: unknown setting; did you mean notify?",
        f"gramhouse.toml, line 7: mapping.media_id.1: it must be a valid string (got '7'). {CHANGE}",
    ]


def test_an_invalid_value_is_reported_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gramhouse.toml").write_text("page_size = 51\n", encoding="utf-8")
    monkeypatch.setenv("gramhouse_page_size", "many")
    with pytest.raises(SettingsError, match=r"^gramhouse_page_size: .* \(got 'many'\)\. Fix: "):
        load()
    with pytest.raises(SettingsError, match=r"^--page-size: .* \(got '0'\)\. Fix: "):
        load(page_size=0)


def test_only_settings_with_a_value_count_as_set(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gramhouse.toml").write_text("page_size = 3\n", encoding="utf-8")
    monkeypatch.setenv("Gramhouse_Warehouse", "~/w.duckdb")
    monkeypatch.setenv("GRAMHOUSE_KEEP_RUNS", "")
    read = load(snapshot=Path("s.duckdb"))
    assert read.model_fields_set == {"page_size", "warehouse", "snapshot"}
    assert read.warehouse == Path("~/w.duckdb").expanduser()


def test_prefects_clients_reach_this_machine_whatever_proxies_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    for name, value in {"ALL_PROXY": "http://127.0.0.1:9", "NO_PROXY": "api.example.com"}.items():
        monkeypatch.setenv(name, value)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    assert all(proxy_bypass(f"{host}:4200") for host in ("127.0.0.1", "localhost", "api.example.com"))
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            assert client._transport_for_url(httpx.URL(f"http://{host}:4200/api")) is client._transport  # noqa: SLF001
