"""Makes the output of each frame from the key frames before it and, under the carry ``interpolate``, after it."""
