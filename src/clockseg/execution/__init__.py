"""Executors: how the pending parts of a frame are run."""
