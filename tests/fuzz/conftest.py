from tests.warehouse.conftest import opened_rig

__all__ = ["opened_rig"]
