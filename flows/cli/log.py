"""Lines on standard error: for a person, or with `--log-format json` one JSON object per line, with the same fields.

Every line is a log record: of the command's `notices`, of our packages, or of a library.
"""

import json
import logging
import sys
from datetime import UTC, datetime

from flows.cli.terminal import FAIL, WARN, clean, err
from flows.reporting.progress import Progress, notices
from flows.reporting.words import json_value, moment

# The fields of a log record that connectors and flows set with `extra`, and `run`.
_FACTS = (
    *("run", "account", "username", "partition", "code", "http_status", "correlation_id"),
    *("retry_in", "resume_after"),
)

LOGGERS = ("root", notices.name, "connectors", "flows")


class _Lines(logging.Handler):
    """Prints records for a person: an error, which ends a command, and outside of a terminal others with their time."""

    def emit(self, record: logging.LogRecord) -> None:
        is_error = record.levelno >= logging.ERROR
        mark = f"{FAIL} " if is_error else f"{WARN} " if record.levelno == logging.WARNING else ""
        at = datetime.fromtimestamp(record.created, UTC)
        time = "" if err.is_terminal or is_error else f"{moment(at, seconds=True)} UTC "
        # A terminal wraps the line, so that a log has it complete.
        err.print(f"{mark}{time}{clean(record.getMessage(), newlines=is_error)}", soft_wrap=True)
        if record.exc_info:
            err.print(clean(logging.Formatter().formatException(record.exc_info), newlines=True), soft_wrap=True)


class _Objects(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a JSON object."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields: dict[str, object] = {"time": at, "level": record.levelname.lower(), "message": record.getMessage()}
        fields |= {name: getattr(record, name, None) for name in _FACTS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=json_value)


def begin_log(*, as_json: bool) -> None:
    """Write all log records to standard error from now on."""
    handler: logging.Handler = _Lines()
    if as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Objects())
        logging.captureWarnings(capture=True)
        log_requests()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        # Prefect replaces the handlers of the root, which are for libraries.
        logger.propagate = False
    notices.setLevel(logging.INFO)


def log_requests() -> None:
    """Log what our packages do, such as every retry and wait. Prefect and its client would log each request."""
    for package in ("connectors", "flows"):
        logging.getLogger(package).setLevel(logging.INFO)


def name_run(progress: Progress) -> None:
    """Add the id of a run in this process to all records from now on."""

    def add(record: logging.LogRecord) -> bool:
        record.run = progress.run_id
        return True

    for handler in notices.handlers:
        handler.addFilter(add)
