"""Choosing a schedule: tuning thresholds and planning for a video."""
