from tests.warehouse.conftest import open_house

__all__ = ["open_house"]
