"""What every test of the repository relies on."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

# How long an example takes depends on who else uses the machine.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes that tests start.

    A shell that starts a job in the background makes it ignore SIGINT, and its children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let no garbage collection look at the imported modules and the collected tests again.

    Thousands of tests import gigabytes. Every full collection would walk all of it, and in a forked child copy it.
    """
    gc.collect()
    gc.freeze()
