"""Training of the bundled networks: scripts that run from a checkout of the repository and are not in the wheel."""
