"""One seed in a process of its own."""

import sys


def try_seed(seed: int, days: int) -> tuple[int, int, int, str | None]:
    """Play a seed; return its days, those whose run ended, its recent scans, and the story if it went wrong."""
    # DuckDB's client would import it, which takes a second in each process (docs/decisions/0004).
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
    from tests.simulation.play import play  # noqa: PLC0415
    from tests.simulation.shrink import shrink  # noqa: PLC0415
    from tests.simulation.story import tell  # noqa: PLC0415

    played = play(tell(seed, days))
    if played.foul is None:
        return played.days, played.ended, played.recent, None
    sys.stderr.write(f"seed {seed} went wrong: {played.foul.splitlines()[0]} ... looking for the shortest story\n")
    shortest = shrink(played.story, lambda story: play(story).foul is not None)
    foul = play(shortest).foul
    return played.days, played.ended, played.recent, f"{shortest.message()}\n{foul}\n(as first met: {played.foul})"
