"""Instances: objects with a class, a score, a box, a mask and an identity, found on key frames and followed in between."""
