"""The command line: one command a file, each parses, makes one public call, and prints."""
