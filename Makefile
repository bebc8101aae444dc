# veo: `make help` lists what there is.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
OUT    ?= out

.DEFAULT_GOAL := help
.PHONY: help demo setup check fix test test-gpu bench docs weights crash clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: setup ## set up, then render a real clip with the model that ships inside; prints its path
	@$(BIN)/veo render examples/lighthouse.yaml --output $(OUT)

setup: $(STAMP) ## a virtual environment with everything pinned

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("veo needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) >&2
	@echo "setting up $(VENV): several hundred megabytes of packages, a few minutes" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' >&2
	@touch $@

check: setup ## ruff, mypy --strict, and whether docs/cli.md is what the help texts say
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m veo_cli.docs_cli --check

fix: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup check ## everything that runs without a GPU; under 25 minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu"

test-gpu: ## the kernels and whole clips on this machine's GPU (uses the python on PATH)
	python3 -m pytest -m gpu tests/kernels/test_gpu_kernels.py tests/stages/test_gpu_render.py

bench: setup ## every benchmark that this machine can run, into benchmarks/results/
	$(BIN)/python -m benchmarks

docs: setup ## docs/cli.md from --help
	$(BIN)/python -m veo_cli.docs_cli

weights: ## what to run on a GPU to train veo-mini again
	@sed -n '/^## Train/,/^## /p' training/README.md

crash: setup ## kill a batch at 200 seeded random moments; nothing may be lost
	$(BIN)/python -m tests.crash_matrix --kills 200

clean: ## remove the virtual environment, caches and rendered clips
	rm -rf $(VENV) $(OUT) dist .mypy_cache .ruff_cache .pytest_cache
