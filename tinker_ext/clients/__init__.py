"""The clients users hold: one short method per operation."""
