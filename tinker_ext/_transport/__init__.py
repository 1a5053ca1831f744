"""The way to a server: connections, lanes, retries, limits and what can be observed of them."""
