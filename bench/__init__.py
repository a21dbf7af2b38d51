"""Measurements: `python -m bench.ops` times the operators beside their peers and writes bench/results/ops.json."""
