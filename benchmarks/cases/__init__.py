"""The measurements, one question a module."""
