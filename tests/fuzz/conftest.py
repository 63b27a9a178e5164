from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from connectors.warehouse.connection import connect


@pytest.fixture(scope="session")
def open_house() -> Iterator[Connection]:
    with connect(Path(":memory:")) as connection:
        connection.exec_driver_sql("SET threads = 1")
        connection.commit()
        yield connection
