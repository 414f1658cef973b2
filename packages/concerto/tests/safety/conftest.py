"""Settings of the property tests: how long an example takes is for benchmarks to say, not for tests."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
