"""`gramhouse doctor`: checks the requirements of a run one by one, with a fix for each."""

from itertools import chain
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import AsJson
from flows.cli.output.terminal import ask, describe_check, print_check, print_json
from flows.config.errors import SettingsError
from flows.config.settings import load
from flows.reporting.exit_code import ExitCode
from models.findings import Severity

_VERDICTS = {Severity.INFORMATION: "ok", Severity.WARNING: "note", Severity.ACTION: "bad"}

# Checks of what the user has set.
_USAGE = {"configuration", "address", "key", "network"}


def _ask(what: str) -> bool:
    return ask(f"The API asked for {what}. Lift it, so that the next sync sends requests again?")


def doctor(
    *,
    repair: Annotated[
        bool,
        Parameter(
            help="First correct stored times that are in the future because the clock was ahead, and restart the"
            " cooldowns that depend on them; then offer to lift cooldowns of more than a day.",
        ),
    ] = False,
    yes: Annotated[bool, Parameter(help="With --repair, lift such cooldowns without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check configuration, API, warehouse, snapshot, Prefect: one line each.

    Exit codes: 0 all checks passed and --repair, if given, succeeded; 1 a check failed; 2 wrong usage or configuration;
    4 --repair found the warehouse held by another process.
    """
    settings = load()
    if yes and not repair:
        raise SettingsError("--yes is an answer to --repair. Fix: use both, or leave it out.")
    lift = (lambda _: True) if yes else (lambda _: False) if as_json else _ask
    from flows.cli import checks

    found = []
    repairs = checks.repair(settings, lift) if repair else ()
    for finding in chain(repairs, checks.list_findings(settings)):
        found.append(finding)
        if not as_json:
            print_check(finding)
    bad = {finding.code for finding in found if finding.severity is Severity.ACTION}
    exit_code = ExitCode.WRONG_USAGE if bad & _USAGE else ExitCode.FAILED if bad else ExitCode.COMPLETE
    if as_json:
        findings = [
            {
                "check": one.code,
                "verdict": _VERDICTS[one.severity],
                "message": describe_check(one),
                "fix": one.fix or None,
            }
            for one in found
        ]
        print_json({"exit_code": exit_code, "findings": findings})
    raise SystemExit(exit_code)
