"""Trains the corrections of propagated scores that ``street-stale`` and ``street-large`` have in their files."""
