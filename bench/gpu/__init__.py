"""The Triton kernels without a GPU: `python -m bench.gpu` compiles each for several of them, writes
bench/results/gpu.json and makes the tables of docs/gpu.md; what they cost at least follows from a model."""
