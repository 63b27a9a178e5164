from tests.operator import bare
from tests.snapshots import snapshot

__all__ = ["bare", "snapshot"]
