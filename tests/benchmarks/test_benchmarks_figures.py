"""Medians, ratios, bounds and verdicts computed from measurements, and the measurement of small processes."""

import sys
from pathlib import Path

import pytest

from benchmarks.candidates.jobs import Job, RunFolder, clean_environment, gramhouse, measure_job
from benchmarks.candidates.latency import corrected, first_guess
from benchmarks.goals import Goal, judge
from benchmarks.measuring.process import run
from benchmarks.measuring.samples import Sample, median_sample, peak_memory
from benchmarks.network import distance, in_flight, limits
from benchmarks.sync import again, cold, resume, shapes, startup
from benchmarks.warehouse import large, queries, upkeep


def test_each_field_has_its_own_median() -> None:
    samples = [Sample(3, 1, 10, 5), Sample(1, 2, 30, 5), Sample(2, 9, 20, 5)]

    assert median_sample(samples) == Sample(2, 2, 20, 5)
    assert peak_memory(samples) == 30


def test_the_figures_of_each_scenario() -> None:
    one, two = [Sample(1, 1, 100, 10)], [Sample(2, 3, 50, 12)]

    assert cold.figures({"floor": one, "gramhouse": two, "dlt": one}) == {
        "wall_over_floor": 2,
        "cpu_over_floor": 3,
        "pages_over_floor": 1.2,
        "peak_mb": 50,
        "dlt_wall_over_ours": 0.5,
        "dlt_cpu_over_ours": pytest.approx(1 / 3),
        "peak_over_dlt": 0.5,
    }
    assert again.figures({"floor": one, "gramhouse": two})["wall_over_floor"] == 2
    assert resume.figures({"clean": one, "killed": [*two, Sample(4, pages=11)]})["pages_over_clean"] == 1.2
    found = distance.figures({"floor": one, "gramhouse": two, "empty": one}, 3)
    assert found["wall_over_bound"] == 0.5
    assert limits.figures({"unlimited": one, "limited": two}, 1)["wall_over_bound"] == 1
    limited = [Sample(9, pages=84, refused=4, requesting=1.5)]
    found = limits.key_figures({"unlimited": [Sample(1, pages=70)], "429": limited, "503": limited}, 60)
    assert (found["429_refused_share"], found["503_seconds_over_bound"]) == (0.05, 1.5)
    by_shape = {f"{shape}: {name}": one for shape in ("few large", "many small") for name, one in FETCHED.items()}
    assert shapes.figures(by_shape, {"few large": 1, "many small": 2})["small_page_over_large"] == 1
    upkeep_samples = {"copy of the warehouse": one, "publish": two, "compact": one}
    assert upkeep.figures(upkeep_samples)["publish_over_copy"] == 2
    assert upkeep.figures(upkeep_samples)["compact_over_copy"] == 1
    by_query = {f"{name}: {file}": one for name in ("last posts", "by day", "view") for file in ("snapshot", "by hand")}
    assert queries.figures(by_query)["last_posts_ms"] == 1000
    assert large.figures({"1m": one, "10m": two})["merge_over_smallest"] == 2
    started = startup.figures({"pass": one, "import typer": one, "help": one, "status": two, "sync": two})
    assert (started["help_cpu_seconds"], started["sync_seconds"], started["status_cpu_over_typer"]) == (1, 2, 3)
    assert in_flight.figures({"4: floor": one, "4: gramhouse": two}, [4])["4_wall_over_floor"] == 2


FETCHED = {"floor": [Sample(1, pages=10)], "gramhouse": [Sample(2, pages=10)]}


def test_a_goal_is_reached_not_reached_or_not_measured() -> None:
    at_most = Goal("work", "large", "figure", 2, other_sizes=("small",))
    at_least = Goal("work", "large", "figure", 2, at_least=True)
    relative = Goal("work", "large", "figure", 1.5, relative_to="small")

    assert judge(at_most, {}).message == "not measured"
    assert judge(at_most, {"small": {"figure": 1}}).message == "only small"
    assert judge(at_most, {"large": {"figure": 2}}).message == "reached"
    assert judge(at_most, {"large": {"figure": 2.1}}).message == "NOT REACHED"
    assert judge(at_least, {"large": {"figure": 1.9}}).message == "NOT REACHED"
    assert judge(relative, {"large": {"figure": 3}}).message == "not measured"
    assert judge(relative, {"large": {"figure": 3}, "small": {"figure": 2}}).measured == 1.5


def test_a_figure_of_zero_counts_as_measured() -> None:
    assert judge(Goal("early", "limits", "too_early", 0), {"limits": {"too_early": 0}}).message == "reached"


def test_a_process_is_measured_with_its_children(tmp_path: Path) -> None:
    child = "data = b'x' * (64 << 20); import time; time.sleep(0.5)"
    parent = f"""
import subprocess, sys
children = [subprocess.Popen([sys.executable, "-c", {child!r}]) for _ in range(2)]
print(len([child.wait() for child in children]))
sys.exit(3)
"""
    result = run((sys.executable, "-c", parent), clean_environment(), tmp_path)

    assert (result.exit_code, result.stdout.strip()) == (3, "2")
    assert result.peak_mb > 128


def test_a_candidate_that_fails_or_fetches_too_little_is_an_error(tmp_path: Path) -> None:
    def job(code: str) -> Job:
        return Job((sys.executable, "-c", code), clean_environment(), tmp_path)

    with pytest.raises(RuntimeError, match="exited with 1"):
        measure_job(job("raise SystemExit('no')"))
    with pytest.raises(RuntimeError, match="fetched 3 items instead of 4"):
        measure_job(job("print('{\"items\": 3}')"), items=4)


def test_the_users_settings_do_not_affect_the_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRAMHOUSE_RAW", "/somewhere")
    job = gramhouse("http://127.0.0.1:1", RunFolder(tmp_path / "run"), 4)

    assert "GRAMHOUSE_RAW" not in job.env
    assert job.env["GRAMHOUSE_CONCURRENCY"] == "4"
    assert job.command[1:] == ("-m", "flows.cli", "sync", "--surface", "posts", "--rebind", "--json")


def test_the_latency_of_a_slow_server_is_computed_from_the_fetch_without_and_with_latency() -> None:
    guess = first_guess(3, Sample(2.0, pages=1000), in_flight=16)
    assert guess == pytest.approx(2.2 * 2.0 * 16 / 1000)
    assert corrected(guess, 6.0, Sample(6.5, pages=1000), in_flight=16) == pytest.approx(guess - 0.5 * 16 / 1000)
    assert corrected(0.001, 6.0, Sample(60.0, pages=1000), in_flight=16) == 0
