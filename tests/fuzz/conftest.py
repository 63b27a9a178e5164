from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from tests.warehouse.house import in_memory


@pytest.fixture(scope="session")
def open_house() -> Iterator[Connection]:
    with in_memory() as connection:
        connection.exec_driver_sql("SET threads = 1")
        connection.commit()
        yield connection
