"""What every scenario's command line has in common."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.beside import ROOT
from benchmarks.pages import Style
from benchmarks.results import RESULTS


def _absolute(name: str) -> Path:
    return Path(name).expanduser().resolve()


def options(text: str | None, *, accounts: int = 400, posts: int = 250, rounds: int = 3) -> argparse.ArgumentParser:
    """Return a command line with the sizes, the rounds, and where to put what."""
    wanted = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--accounts", type=int, default=accounts)
    wanted.add_argument("--posts", type=int, default=posts, help="of each account")
    wanted.add_argument("--rounds", type=int, default=rounds)
    wanted.add_argument(
        "--style", type=Style, choices=tuple(Style), default=Style.COMPACT, help="how items are written; cold, again"
    )
    wanted.add_argument("--in-flight", type=int, default=16, help="accounts scanned at once")
    wanted.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    # Absolute, for the contenders run elsewhere.
    wanted.add_argument("--folder", type=_absolute, help="keep warehouses here, and use those that are kept")
    return wanted


def with_dlt(wanted: argparse.ArgumentParser) -> None:
    """Add who runs dlt: its environment's Python; without it dlt is left out."""
    wanted.add_argument("--dlt", type=Path, default=ROOT / ".venv" / "dlt" / "bin" / "python", metavar="PYTHON")
    wanted.add_argument("--without-dlt", action="store_true")


def dlt_python(chosen: argparse.Namespace) -> Path | None:
    """Return who runs dlt, if it is wanted; ends the program when it is and was not set up."""
    python: Path = chosen.dlt
    if chosen.without_dlt:
        return None
    if not python.exists():
        message = f"no dlt at {python}: `make bench-setup` sets it up, --without-dlt leaves it out"
        raise SystemExit(message)
    return python


@contextmanager
def scratch(chosen: argparse.Namespace) -> Iterator[Path]:
    """Give a folder for what is not kept, on the disk of what is kept."""
    # Who ends a measurement ends its server and its contender too: both are closed on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if chosen.folder:
        chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-") as folder:
        yield Path(folder)
