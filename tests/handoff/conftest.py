from tests.snapshots import snapshot

__all__ = ["snapshot"]
