"""What holds for every test."""

from hypothesis import settings

# A busy machine is no failure: tests that look for hangs set a deadline of their own.
settings.register_profile("gramhouse", deadline=None)
settings.load_profile("gramhouse")
