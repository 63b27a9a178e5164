"""A run's page in Prefect's UI, as Markdown: its findings first, then the state of the data."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from flows.reporting.findings import Severity, findings
from flows.reporting.reader import Record
from flows.reporting.report import landed, numbers
from flows.reporting.run_report import RunReport
from flows.reporting.words import code, count, moment, span
from models.runs import OutcomeKind

_BAR = 5
_FIXED = "\N{NO-BREAK SPACE}"
_EIGHTHS = "▏▎▍▌▋▊▉█"


def bar(value: float, most: float) -> str:
    """Return a text bar for a number, full for `most`. Any number above zero has a visible bar."""
    eighths = 0 if most <= 0 else round(8 * _BAR * value / most)
    whole, rest = divmod(max(eighths, 1) if value > 0 else 0, 8)
    return _EIGHTHS[-1] * whole + (_EIGHTHS[rest - 1] if rest else "")


def _bar(value: float | None, runs: Sequence[Record], name: str) -> str:
    if value is None:
        return ""
    text = span(value) if name == "seconds" else f"{value:,}"
    return f"{bar(value, max(run[name] or 0 for run in runs))} {text}".strip().replace(" ", _FIXED)


def markdown(report: RunReport, report_url: str | None = None) -> str:
    """Return the page. Text from outside is only in code spans. `report_url` is the address of the HTML report."""
    # Not escaped as HTML: code spans show any text literally.
    environment = Environment(  # noqa: S701
        loader=PackageLoader("flows.reporting"), lstrip_blocks=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"bar": _bar, "code": code, "count": count, "landed": landed, "moment": moment}
    outcomes: dict[str, dict[str, int]] = {}
    for each in report.data["outcomes"]:
        outcomes.setdefault(each["surface"], {})[each["outcome"]] = each["scans"]
    found = findings(report)
    return environment.get_template("artifact.md.j2").render(
        findings=found,
        kinds=[kind.value for kind in OutcomeKind if any(kind in scans for scans in outcomes.values())],
        numbers=numbers(report),
        outcomes=outcomes,
        quiet=all(finding.severity is Severity.INFORMATION for finding in found),
        report=report,
        report_url=report_url,
    )
