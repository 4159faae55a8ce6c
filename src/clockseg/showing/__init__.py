"""Showing: the output of each frame, made from the frames on which the network fired before it, and after it in a file."""
