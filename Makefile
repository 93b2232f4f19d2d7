# Every target sets up .venv first if pyproject.toml or constraints.txt changed since it was last done, and starts at once if not.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint types browser docs bench clean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(READY) ## train a small language model in two minutes, and watch it learn
	@$(BIN)/regard train text

test: lint types browser ## lint, types, then all tests on all cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy, on the package and on a project that uses it
	$(BIN)/mypy
	cd tests/consumer && ../../$(BIN)/mypy .

# Pages are tested in a real browser. Where it may be installed it is; elsewhere its tests are skipped and say what to type.
browser:
	@command -v chromium >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 \
	    && echo "Installing chromium, once, to test pages." \
	    && apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
	    || echo "There is no chromium, so pages are not tested; to have it: sudo apt-get install chromium" >&2

# A warning is an error: a link that leads nowhere stops it.
docs: $(READY) ## the site, for reading offline: build/site/index.html
	@rm -rf build/site build/site-source
	@$(BIN)/python docs/site/assemble.py build/site-source
	@PYTHONPATH=. $(BIN)/python -m sphinx -q -W --keep-going -j auto -b html build/site-source build/site
	@$(BIN)/regard story --out build/site/story.html --docs docs
	@echo "open build/site/index.html, or build/site/story.html"

bench: $(READY) ## measure speed side by side with peers
	@for file in benchmarks/[a-z]*.py; do \
	    [ -e "$$file" ] || { echo "there is no benchmark in benchmarks/ yet" >&2; exit 1; }; \
	    echo "$$file"; $(BIN)/python "$$file" || exit 1; \
	done

clean: ## remove caches and builds (.venv stays)
	rm -rf build dist .pytest_cache .hypothesis .ruff_cache .mypy_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The build back end comes first and build isolation is off, so that it too has the pinned version.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "regard needs Python 3.11 or later, but $(PYTHON) is '$$($(PYTHON) --version 2>&1)'; try: make PYTHON=/path/to/python3.11" >&2; \
	    exit 1; }
	@echo "Setting up $(VENV), once; downloading torch takes a while."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -c constraints.txt hatchling
	@$(BIN)/python -m pip install -c constraints.txt --no-build-isolation -e '.[all,dev,docs]'
	@touch $@
