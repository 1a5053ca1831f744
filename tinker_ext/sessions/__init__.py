"""A session on a server: its id and counters, its heartbeat, and the order of training calls."""
