"""Guided upsampling against what people use today, on four sets: `python -m bench.guided --data DIR`."""
