"""Networks as graphs: the cut rule, its readers, and the sidecar on disk."""
