import pytest


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Ignore warnings about open connections: Prefect's clients leave theirs to the garbage collector.

    It may find them during any later test of this process.
    """
    for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"ignore:{kind}")
