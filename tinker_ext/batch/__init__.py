"""Pure work on batches: sizes, splitting, merging, checks and custom losses. No I/O."""
