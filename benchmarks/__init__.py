"""Measurements of clockseg: ``python -m benchmarks`` lists them, ``python -m benchmarks NAME`` runs one."""
