"""Checks the schedules of the settings."""

import re
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

_NAMES = re.compile(r"JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT", re.IGNORECASE)
_SIGNS = re.compile(r"[\d*,/-]+")
_FIELDS = 5


def check_cron(expression: str) -> str:
    """Return a cron expression of five fields unchanged. Raises ValueError if it is invalid.

    Seconds, `L` and `#` are rejected: implementations differ there, and Prefect's must agree with ours.
    """
    fields = expression.split()
    plain = all(_SIGNS.fullmatch(_NAMES.sub("0", found)) for found in fields)
    try:
        usable = plain and len(fields) == _FIELDS and next(CronSim(expression, datetime.now(UTC)), None) is not None
    except CronSimError:
        usable = False
    if not usable:
        message = "it is not a valid cron expression; use five fields, such as 15 2 * * *"
        raise ValueError(message)
    return expression
