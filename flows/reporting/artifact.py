"""A run's page in Prefect's UI, as Markdown: its findings first, then the state of the data."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from flows.reporting.findings import Severity, findings
from flows.reporting.report import landed, numbers
from flows.reporting.run_report import RunReport
from flows.reporting.words import code, count, moment
from models.runs import OutcomeKind


def markdown(report: RunReport, report_url: str | None = None) -> str:
    """Return the page. Text from outside is only in code spans. `report_url` is the address of the HTML report."""
    # Not escaped as HTML: code spans show any text literally.
    environment = Environment(  # noqa: S701
        loader=PackageLoader("flows.reporting"), lstrip_blocks=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"code": code, "count": count, "landed": landed, "moment": moment}
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
