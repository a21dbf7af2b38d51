# Each target is complete on a fresh machine with Python 3.11 and make; with a C++ compiler the CPU kernels are built too.

PYTHON ?= python3
RUN := .venv/bin

.PHONY: demo test browser lint format sanitize bench clean

demo: .venv/installed
	$(RUN)/sapa demo

test: .venv/installed lint browser
	$(RUN)/pytest -n 2 --dist worksteal -q --durations 20

# for tests/test_page.py, which is skipped without one; only in a container, where one is root
browser:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	    { apt-get update -qq; apt-get install -qq -y chromium; } >/dev/null 2>&1 || true

lint: .venv/installed
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/pyright

format: .venv/installed
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

# the C++ kernels over random shapes under AddressSanitizer and UndefinedBehaviorSanitizer, for each instruction set
CHECKS := -fsanitize=address,undefined -fno-sanitize-recover=all
KERNELS := -std=c++17 -g -O1 -fopenmp -fno-math-errno -fno-trapping-math $(CHECKS) src/sapa/csrc/kernels.cpp -c
sanitize:
	mkdir -p build/sanitize
	$(CXX) $(KERNELS) -DSAPA_ISA=baseline -o build/sanitize/baseline.o
	$(CXX) $(KERNELS) -DSAPA_ISA=avx2 -march=x86-64-v3 -o build/sanitize/avx2.o
	$(CXX) $(KERNELS) -DSAPA_ISA=avx512 -march=x86-64-v4 -o build/sanitize/avx512.o
	$(CXX) -std=c++17 -g -O1 -fopenmp $(CHECKS) -Isrc/sapa/csrc tests/sanitize.cpp src/sapa/csrc/dispatch.cpp \
	    build/sanitize/*.o -o build/sanitize/run
	SAPA_ISA=baseline build/sanitize/run 100
	build/sanitize/run 300

bench: .venv/installed
	$(RUN)/python -m bench.ops
	$(RUN)/python -m bench.upsamplers
	$(RUN)/python -m bench.segformer
	$(RUN)/python -m bench.render
	$(RUN)/python -m bench.gpu

# everything in one command, so that no package can bring another torch than the pinned one
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(RUN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist sapa-demo.png
