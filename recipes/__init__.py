"""How the bundled networks were trained: scripts that run from a checkout of the repository and are not in the wheel."""
