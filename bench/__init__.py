"""Measurements: `python -m bench.ops` and `python -m bench.upsamplers` write bench/results, `python -m bench.render`
makes docs/performance.md from it. What times one case is in the package: sapa.bench, behind `sapa bench`."""
