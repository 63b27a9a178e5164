"""The overhead of tracking a sync with Prefect: the same sync, alternately tracked and direct, as whole processes.

    python -m benchmarks.sync.tracking [--accounts 1000] [--posts 20] [--rounds 3]

The items are spaced, and a third of them are carousels. Every sync has a new warehouse; all tracked ones have the same
Prefect server.
"""

import socket
from contextlib import ExitStack
from functools import partial

from benchmarks.api.server_process import start_server
from benchmarks.api.synthetic_api import Style
from benchmarks.candidates.jobs import measure_sync
from benchmarks.measuring.options import create_parser, size_of, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, Samples, measure_interleaved, median_sample, wall_ratio
from flows.orchestration.processes import import_prefect, local_prefect


def figures(samples: Samples) -> dict[str, float]:
    """Return the difference in seconds, and the ratio; no IO."""
    direct, tracked = (median_sample(samples[name]).wall for name in ("direct", "tracked"))
    return {"overhead_seconds": tracked - direct, "tracked_over_direct": wall_ratio(samples, "tracked", "direct")}


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=1000, posts=20)
    parser.set_defaults(style=Style.SPACED)
    args = parser.parse_args()
    accounts, posts = args.accounts, args.posts
    with (
        temporary_folder(args) as folder,
        start_server(accounts, posts, style=args.style) as server,
        socket.create_server(("127.0.0.1", 0)) as listening,
        ExitStack() as stack,
    ):
        prefect = local_prefect(folder / "prefect", listening.getsockname()[1])
        import_prefect(prefect)
        from flows.orchestration.server import prefect_server  # noqa: PLC0415 - it imports Prefect

        stack.enter_context(prefect_server(listening, folder / "report.html"))

        def sync(name: str, settings: dict[str, str], round_number: int) -> Sample:
            run_folder, items = folder / f"{name}-{round_number}", accounts + accounts * posts
            return measure_sync(server, run_folder, args.in_flight, items=items, settings=settings)

        candidates = {
            "direct": partial(sync, "direct", {}),
            "tracked": partial(sync, "tracked", prefect),
        }
        samples = measure_interleaved(candidates, args.rounds, log)
    description = f"{accounts:,} accounts x {posts:,} posts, tracked by Prefect and direct"
    name = f"tracking-{size_name(accounts * posts)}"
    save_result(Result(name, description, size_of(args), samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()
