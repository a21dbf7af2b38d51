# Each target is complete on a fresh machine with Python 3.11 and make; with a C++ compiler the CPU kernels are built too.

PYTHON ?= python3
RUN := .venv/bin

.PHONY: demo test lint format clean

demo: .venv/installed
	$(RUN)/sapa demo

test: .venv/installed lint
	$(RUN)/pytest -n 2 -q

lint: .venv/installed
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/pyright

format: .venv/installed
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

# everything in one command, so that no package can bring another torch than the pinned one
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(RUN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist sapa-demo.png
