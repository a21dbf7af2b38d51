"""Measurements: `python -m bench.ops` and `python -m bench.upsamplers` write bench/results, `python -m bench.render`
makes docs/performance.md from it; `python -m bench.gpu` compiles the GPU kernels for docs/gpu.md. What times one case
is in the package: sapa.bench, behind `sapa bench`."""
