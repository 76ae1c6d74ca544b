# What one can do here. `make` alone lists it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
BENCH  := .venv-bench
LOSS   := .venv-loss

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-numba test-loss test-all campaign coverage check format bench docs package clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: $(READY) ## create .venv with everything needed (skipped when it is there)

$(READY): pyproject.toml
	@echo "setup: creating $(VENV) and installing somcot with its development tools (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . --group dev
	@$(BIN)/somcot warm-up
	@touch $(READY)
	@echo "setup: done"

demo: $(READY) ## run the main job on bundled data, draw a picture into out/
	@$(BIN)/somcot demo --out out

test: $(READY) ## run the tests (under 8 minutes) and list the slowest
	@$(BIN)/python -m pytest -q -n 2 --durations=10 -m "not slow and not statistical and not campaign"

test-numba: $(READY) ## run the tests of compiled code as Numba compiles it by itself (docs/compilation.md)
	@SOMCOT_COMPILER=numba OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow and not statistical and not campaign" \
		tests/compile tests/core $(addprefix tests/solvers/test_,exact.py saddle.py sinkhorn.py somcot.py)

test-loss: $(LOSS)/.ready ## run the tests of somcot.torch and somcot.jax in an environment that has both
	@OMP_NUM_THREADS=1 $(LOSS)/bin/python -m pytest -q tests/test_torch.py tests/test_abstraction.py tests/test_jax.py tests/test_loss_examples.py src/somcot/torch.py src/somcot/abstraction.py src/somcot/jax.py

$(LOSS)/.ready: pyproject.toml tests/requirements-loss.txt
	@echo "test-loss: creating $(LOSS) with PyTorch and JAX (1 GB)"
	@test -x $(LOSS)/bin/python || $(PYTHON) -m venv $(LOSS)
	@$(LOSS)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(LOSS)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r tests/requirements-loss.txt
	@touch $@

test-all: $(READY) ## run all tests, slow and statistical ones too, random ones on new examples
	@SOMCOT_EXAMPLES=new $(BIN)/python -m pytest -q -n 2 -m "not campaign"
	@$(MAKE) --no-print-directory test-loss

campaign: $(READY) ## run the reliability campaign (about 30 minutes), write its table to out/campaign.md; SEED=7: new cases
	@mkdir -p out && rm -f out/campaign.jsonl
	@SOMCOT_CAMPAIGN_SEED=$(or $(SEED),0) SOMCOT_CAMPAIGN_TABLE=$(CURDIR)/out/campaign.jsonl $(BIN)/python -m pytest -q -n 2 --dist worksteal -m campaign tests/campaign; \
		code=$$?; $(BIN)/python -m tests.campaign.table out/campaign.jsonl out/campaign; exit $$code

# Without the tests of processes that may write no file, have little memory or are timed: measuring takes all three.
coverage: $(READY) ## run the tests of `make test` and show which share of the lines they run; lines in out/coverage
	@$(BIN)/python -m pytest -q -n 2 -m "not slow and not statistical and not campaign" --cov --cov-report=term \
		--cov-report=html:out/coverage --ignore tests/campaign --deselect tests/cli/test_bad_files.py::test_no_permission_for_another_user

check: $(READY) ## lint, formatting, types, import layers, workflows
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/zizmor --offline --quiet .github

format: $(READY) ## format the code and sort its imports
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY) $(BENCH)/.ready ## measure against other packages, write out/benchmarks.md
	@mkdir -p out
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks --peers $(BENCH)/bin/python --out out/benchmarks.md

$(BENCH)/.ready: benchmarks/requirements.txt
	@echo "bench: creating $(BENCH) with the packages to compare with"
	@test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

docs: $(READY) ## build the documentation into docs/_build (a minute; examples that did not change are not run again)
	@$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

package: $(READY) ## build wheel and sdist into dist and check what they say about themselves
	@rm -rf dist
	@$(BIN)/python -m build --quiet
	@$(BIN)/python -m twine check --strict dist/*

clean: ## remove environments, caches and outputs
	rm -rf $(VENV) $(BENCH) $(LOSS) out docs/_build docs/gallery build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
