"""Measurements: accuracy against labels, agreement with every frame, flicker, latency and cost."""
