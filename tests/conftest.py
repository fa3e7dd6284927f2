"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with Ctrl-C ignored, and so would every process that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
