# Each target prepares what it needs: a virtual environment in .venv with the locked dependencies.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test lint soak bench wheel lock clean

demo: $(READY) ## a live plan change on generated data, explained as it runs
	$(BIN)/thalweg demo

test: lint $(READY) ## everything that must hold, in minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(READY) ## style and types
	$(BIN)/ruff check src tests examples
	$(BIN)/ruff format --check src tests examples
	$(BIN)/mypy

soak: $(READY) ## the randomized tests again, for hours if wanted, once with bounds of arrays checked, and killed drivers, workers and executors: make soak CASES=100000
	THALWEG_CASES=$(or $(CASES),50000) $(BIN)/python -m pytest -n 2 --dist worksteal tests/properties
	rm -rf .cache/bounds
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.cache/bounds $(BIN)/python -m pytest -n 2 --dist worksteal tests/engine tests/properties tests/experiments/test_peers.py
	THALWEG_SOAK=1 THALWEG_KILLS=$(or $(KILLS),34) $(BIN)/python -m pytest tests/spark tests/experiments tests/cli/test_interrupt.py

bench: $(READY) ## the engine against its rivals
	$(BIN)/thalweg bench engine

wheel: $(READY) ## what pip installs elsewhere, in dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "thalweg needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

lock: $(READY) ## choose the versions of the dependencies anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	    --no-header --no-annotate --upgrade --quiet -o requirements.lock

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
