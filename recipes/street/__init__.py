"""Training and export of the bundled networks `street` and `street-large`."""
