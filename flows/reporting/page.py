"""The report: one HTML page of a snapshot, with a content security policy that forbids scripts and requests.

Writing it replaces an earlier one atomically.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.files import replace_file
from connectors.warehouse.storage.sql import statements
from flows.config.errors import SettingsError, error_line
from flows.reporting.charts import draw_columns, element
from flows.reporting.findings import list_findings
from flows.reporting.progress import notices
from flows.reporting.run_report import NO_DATA, WEEKS, Reader, last_report
from flows.reporting.words import count, span
from models import release
from models.feeds import SURFACES
from models.files import first_line
from models.runs import Severity, one_line, several

MARK = "<!doctype html>\n<!-- gramhouse report -->\n"
"""The beginning of every report. A file that begins with it is an earlier report and may be replaced."""

_CODE = re.compile(r"`([^`]+)`")

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page, the time of its snapshot, and the number of findings on it that require action."""

    html: str
    published_at: datetime
    attention: int


def make_page(
    snapshot: Snapshot, accounts: Sequence[str] = (), *, surfaces: Sequence[str] = SURFACES, weeks: int = WEEKS
) -> Page:
    """Return the page for an open snapshot, these accounts (empty: all) and surfaces, with `weeks` on its time axes.

    It depends only on these and the installed version. Raises SnapshotUnreadable and SelectionError as Reader does.
    """
    surfaces = sorted(surfaces)
    reader = Reader(snapshot, accounts, surfaces=surfaces)
    midnight = reader.at.replace(hour=0, minute=0, second=0, microsecond=0)
    reader.set(is_whole=not accounts and {*surfaces} == {*SURFACES}, since=midnight - timedelta(days=7 * weeks - 1))
    report = last_report(reader)
    data, found = (report.data, list_findings(report)) if report else (NO_DATA, [])
    actions = sum(finding.severity is Severity.ACTION for finding in found)
    rows = {name: reader.records(query) for name, query in _SQL.items()}
    environment = Environment(
        autoescape=True,
        loader=PackageLoader("flows.reporting"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"cell": to_cell, "count": count, "foreign": foreign, "span": span, "with_code": with_code}
    # A constant of this package.
    style = Markup(environment.get_template("style.css.j2").render())  # noqa: S704
    html = environment.get_template("page.html.j2").render(
        actions=actions,
        chosen=len(accounts),
        data=data,
        draw_columns=draw_columns,
        findings=found,
        published=reader.published,
        release=release(),
        runs=[run | run["outcomes"] for run in rows.pop("last_runs")],
        several=several,
        style=style,
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        surfaces=surfaces,
        weeks=weeks,
        **rows,
    )
    return Page(f"{MARK}{html}\n", reader.at, actions)


def foreign(text: str | None, limit: int = 80) -> Markup:
    """Return text from outside as one line, truncated, and isolated from the text direction around it."""
    return element("bdi", one_line(text, limit)) if text else Markup()


def with_code(text: str) -> Markup:
    """Return text from outside as one line; what stands between backticks is code."""
    marked = _CODE.sub(r"<code>\1</code>", str(escape(one_line(text, 500))))
    return element("bdi", Markup(marked))  # noqa: S704 - escaped before


def link(text: Markup, address: str | None) -> Markup:
    """Return a link that sends no referrer; only the text if `address` is not a web address."""
    if address is None or not address.startswith(("https://", "http://")) or not address.isprintable():
        return text
    return element("a", text, href=address, rel="noopener noreferrer", target="_blank")


def to_cell(value: object) -> Markup:
    """Return a value of a table as HTML: times to the minute in UTC, fractions with one digit."""
    match value:
        case datetime():
            return element("time", f"{value:%Y-%m-%d %H:%M}", datetime=f"{value:%Y-%m-%dT%H:%MZ}")
        case date():
            return element("time", value.isoformat())
        case int() | float():
            return escape(f"{value:,}" if isinstance(value, int) else f"{value:,.1f}")
        case Mapping():
            return link(foreign(value["text"]) or escape("(no caption)"), value["address"])
        case _:
            return foreign(str(value or ""))


def is_report(path: Path) -> bool:
    """Return whether there is a report at a path. Raises OSError if a file there cannot be read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def check_place(path: Path) -> None:
    """Create the folder of a report. Raises SettingsError if something else is in its place, and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not is_report(path):
        raise SettingsError(f"{path} is not a gramhouse report and is not replaced. Fix: choose another file.")


def write_page(snapshot: Path, path: Path, accounts: Sequence[str] = (), **chosen: Any) -> Page:  # noqa: ANN401
    """Write the report of a snapshot to `path`, and return it. What is `chosen` are parameters of `make_page`.

    Raises SnapshotMissing, SnapshotUnreadable, WarehouseUnusable and OSError, SettingsError for an unusable path, and
    SelectionError for an account that is not there.
    """
    with open_snapshot(snapshot) as opened:
        check_place(path)
        page = make_page(opened, accounts, **chosen)
    replace_file(path, page.html.encode())
    return page


def renew_page(snapshot: Path, path: Path) -> Path | None:
    """Write the report of a snapshot that was just published; if this fails, say so in one line and return None."""
    try:
        write_page(snapshot, path)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the page, the snapshot is published
        notices.warning(f"The report was not updated: {first_line(error_line(error))}")
        return None
    return path
