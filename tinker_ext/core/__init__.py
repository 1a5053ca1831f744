"""The core: one loop, futures, polling, the session, the training queue and the sample pool."""
