"""What holds for all tests: they do not depend on how the test command itself was started."""

import signal

from hypothesis import settings

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; the tests that
# interrupt programs of their own would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is not a fault of what is tested: no example has to end within 200 ms.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
