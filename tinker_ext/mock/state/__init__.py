"""What the embedded server remembers: sessions, models, samplers, checkpoints, counters."""
