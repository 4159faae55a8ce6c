"""Additions to a network that are learned from video: corrections, score heads, clocks, and 8-bit quantization."""
