"""Training, the authoring side: `segment` trains the bundled network. Needs torch (`pip install '.[torch]' in the clone`)."""
