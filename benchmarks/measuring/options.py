"""Command-line options that all scenarios share."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.api.server_process import ROOT
from benchmarks.api.synthetic_api import Style
from benchmarks.measuring.results import RESULTS


def _absolute(name: str) -> Path:
    return Path(name).expanduser().resolve()


def create_parser(
    text: str | None, *, accounts: int = 400, posts: int = 250, rounds: int = 3
) -> argparse.ArgumentParser:
    """Return a parser with the options for sizes, rounds and output folders."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=accounts)
    parser.add_argument("--posts", type=int, default=posts, help="posts per account")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument(
        "--style",
        type=Style,
        choices=tuple(Style),
        default=Style.COMPACT,
        help="format of the items; only for cold and again",
    )
    parser.add_argument("--in-flight", type=int, default=16, help="accounts scanned at once")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON results")
    # Absolute, because the candidates have another working directory.
    parser.add_argument("--folder", type=_absolute, help="save initial warehouses here and reuse them")
    # Unless a scenario adds the option.
    parser.set_defaults(latency=0.0)
    return parser


def add_latency_option(parser: argparse.ArgumentParser, seconds: float = 0.0) -> None:
    """Add the option for the server's response time; `seconds` is its default."""
    parser.add_argument("--latency", type=float, default=seconds, help="seconds before each response of the server")


def add_slow_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a server that does not answer at once; `latency.set_latency` evaluates them."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--latency", type=float, default=0.0, help="seconds before each response of the server")
    either.add_argument(
        "--fetch-times",
        type=float,
        metavar="N",
        help="choose a latency so that the fetch alone takes N times as long as without",
    )


def size_of(args: argparse.Namespace) -> dict[str, float]:
    """Return the size of a sync, as it is saved with a result."""
    size = {"accounts": args.accounts, "posts": args.posts, "items": args.accounts * args.posts}
    return size | {"in_flight": args.in_flight} | ({"latency": args.latency} if args.latency else {})


def distance_text(args: argparse.Namespace) -> str:
    """Return how far away the server is, as the end of a description; empty without latency."""
    return f", {args.latency * 1000:.0f} ms away" if args.latency else ""


def distance_name(args: argparse.Namespace) -> str:
    """Return how far away the server is, as a part of a result's name; empty without latency."""
    if args.fetch_times:
        return f"{args.fetch_times:g}x"
    return f"{args.latency * 1000:.0f}ms" if args.latency else ""


def add_dlt_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select dlt's Python or leave dlt out."""
    parser.add_argument("--dlt", type=Path, default=ROOT / ".venv" / "dlt" / "bin" / "python", metavar="PYTHON")
    parser.add_argument("--without-dlt", action="store_true")


def dlt_python(args: argparse.Namespace) -> Path | None:
    """Return dlt's Python, or None without dlt; exit if its environment does not exist."""
    python: Path = args.dlt
    if args.without_dlt:
        return None
    if not python.exists():
        raise SystemExit(f"no dlt at {python}: `make .venv/dlt/.made` installs it, --without-dlt leaves it out")
    return python


@contextmanager
def temporary_folder(args: argparse.Namespace) -> Iterator[Path]:
    """Create a temporary folder, on the same disk as the saved warehouses."""
    # On SIGTERM, exit normally, so that the server and the candidate are terminated too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-") as folder:
        yield Path(folder)
