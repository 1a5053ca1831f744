"""What holds for all tests: they do not depend on how the test command itself was started."""

import signal

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; the tests that
# interrupt programs of their own would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
