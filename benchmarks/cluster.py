"""Batches on Dask workers of this machine, against one process.

    python -m benchmarks.cluster [--accounts 200] [--posts 250] [--latency 0.05] [--per-second N] [--workers 1 2 4]

Each worker keeps `--in-flight` requests in flight, and so does the one process: more workers ask for more at once. The
time includes the start of the cluster. `even` is two workers that share the requests of the one process: what the way
through the store costs.
"""

from dataclasses import replace

from benchmarks.beside import serving
from benchmarks.contenders import Home, Job, carry_out, floor, gramhouse
from benchmarks.options import options, scratch
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Samples, interleaved, ratio


def on_workers(job: Job, workers: int) -> Job:
    """Return a sync whose batches so many workers scan."""
    settings = {"GRAMHOUSE_ENGINE": "dask", "GRAMHOUSE_WORKERS": str(workers)}
    return replace(job, env={**job.env, **settings})


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios of seconds to those of one process; no IO."""
    return {f"{name}_over_local": ratio(samples, name, "local") for name in samples if name != "local"}


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__, accounts=200, posts=250, rounds=3)
    wanted.add_argument("--latency", type=float, default=0.05)
    wanted.add_argument("--per-second", type=int, help="requests that each account may make in a second")
    wanted.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    chosen = wanted.parse_args()
    accounts, posts, in_flight = chosen.accounts, chosen.posts, chosen.in_flight
    items = accounts + accounts * posts
    with (
        scratch(chosen) as folder,
        serving(accounts, posts, latency=chosen.latency, per_second=chosen.per_second) as server,
    ):

        def sync(name: str, turn: int, requests: int) -> Job:
            return gramhouse(server.url, Home(folder / f"{name}-{turn}"), requests)

        contenders = {
            "local": lambda turn: carry_out(sync("local", turn, in_flight), server, items=items),
            "even": lambda turn: carry_out(on_workers(sync("even", turn, in_flight // 2), 2), server, items=items),
        }
        if chosen.per_second is None:
            contenders["floor"] = lambda _: carry_out(floor(server.url, folder, in_flight), server)
        for workers in chosen.workers:
            contenders[f"workers_{workers}"] = lambda turn, workers=workers: carry_out(  # type: ignore[misc]
                on_workers(sync(f"workers-{workers}", turn, in_flight), workers), server, items=items
            )
        samples = interleaved(contenders, chosen.rounds, show)
    size = {"accounts": accounts, "posts": posts, "items": items, "latency": chosen.latency, "in_flight": in_flight}
    limited = "" if chosen.per_second is None else f", each account limited to {chosen.per_second} requests a second"
    what = (
        f"{accounts:,} accounts x {posts:,} posts, {chosen.latency * 1000:.0f} ms away{limited}, {in_flight} a worker"
    )
    name = f"cluster-{size_name(items)}-{chosen.latency * 1000:.0f}ms" + ("-limited" if limited else "")
    deliver(Result(name, what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()
