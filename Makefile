# Everything runs from a fresh clone with python3, pip, make and git: the first target that needs it
# creates .venv and installs what it needs there.

PYTHON ?= python3
VENV ?= .venv
# workers of the test run: a number, or auto for one per core
JOBS ?= auto
# extra words for the tool behind a target: make test ARGS="-k pendulum", make bench ARGS="--list"
ARGS ?=

BIN := $(VENV)/bin
CENSUS := $(abspath $(BIN))/python $(abspath tools/census/census.py)
# an edited pyproject.toml gives new stamps, so the environment follows it
HASH := $(shell git hash-object pyproject.toml)
stamp = $(VENV)/installed-$(1)-$(HASH)

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all browser lint format bench census check-install docs docs-check docs-links wheel clean
.PHONY: lint-format lint-rules lint-types lint-layers
.PHONY: check-package check-oldest check-newest check-extras

help:
	@echo "make demo       simulate an underwater vehicle with its arm, write figures"
	@echo "make test       the tests, without the slow ones"
	@echo "make test-all   all tests, with live comparison against other codes"
	@echo "make browser    Chromium for the tests of pages, where apt-get is there to install it"
	@echo "make lint       format check, lint, types, import layers"
	@echo "make format     rewrite the sources in the common format"
	@echo "make bench      measure against other codes; write docs/benchmarks.json, its page and README rows"
	@echo "make census     run robots of other packages beside MuJoCo; write docs/census.json and its page"
	@echo "make check-install  build the release; try it with oldest and newest versions, and each extra"
	@echo "make docs       the documentation, into docs/_build/html, with tutorials executed"
	@echo "make docs-check the same without executing tutorials: warnings are errors"
	@echo "make docs-links  the links of all pages to other sites, over the network"
	@echo "make wheel      sdist and wheel, checked, into dist"
	@echo "make venv       the environment with all tools, for an editor"
	@echo "make clean      remove the environment and everything generated"

venv: $(foreach extra,test lint bench docs,$(call stamp,$(extra)))

demo: $(call stamp,core)
	$(BIN)/tiburon demo $(ARGS)

# tests start hundreds of programs that import the package: each module is compiled to bytecode once,
# also where the environment says that none is written
test test-all: export PYTHONDONTWRITEBYTECODE :=

# a file goes to one worker: its tests share fixtures and kernels, and no two compile the same
test: $(call stamp,test)
	$(BIN)/python -m pytest -m "not slow" --numprocesses=$(JOBS) --dist=loadfile $(ARGS)

test-all: $(call stamp,test) $(call stamp,bench) $(call stamp,interfaces) browser
	$(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadfile $(ARGS)

# for the tests of pages, which are skipped and say so where there is no browser
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
	    apt-get update --quiet --quiet && apt-get install --yes --quiet chromium; } || \
	  echo "no browser, and none could be installed: tests of pages are skipped"

# one target per tool, so that make --keep-going shows the findings of all
lint: lint-format lint-rules lint-types lint-layers

lint-format: $(call stamp,lint)
	$(BIN)/ruff format --check .

lint-rules: $(call stamp,lint)
	$(BIN)/ruff check .

lint-types: $(call stamp,lint)
	$(BIN)/mypy

lint-layers: $(call stamp,lint)
	$(BIN)/lint-imports

format: $(call stamp,lint)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(call stamp,bench)
	$(BIN)/tiburon bench --publish $(ARGS)

# packages are downloaded once; remove build/census for newer ones. CENSUS_FILES is a folder that has them already
CENSUS_FILES ?=

census: $(call stamp,bench)
	mkdir -p build/census
	$(if $(CENSUS_FILES),ln -sfn $(abspath $(CENSUS_FILES)) build/census/census-files)
	cd build/census && { [ -e census-files ] || $(CENSUS) fetch; } && $(CENSUS) run --jobs 2 $(ARGS) && \
	  $(CENSUS) table && $(CENSUS) publish

# in environments of their own, which are removed again; Pythons are found on PATH
check-install: check-package check-oldest check-newest check-extras

check-package check-oldest check-newest check-extras: check-%: | $(BIN)/python
	$(BIN)/python tools/check_install.py $* $(ARGS)

docs: $(call stamp,docs)
	TIBURON_DOCS_EXECUTE=1 $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python tools/gallery.py replays docs/_build/html/gallery/replays

# pages and links alone: tutorials are not executed, replays are not made
docs-check: $(call stamp,docs)
	$(BIN)/python -m sphinx -W --keep-going -q -b dummy docs docs/_build/check

docs-links: $(call stamp,docs)
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

wheel: | $(BIN)/python
	$(BIN)/python tools/check_install.py package --out dist

clean:
	rm -rf $(VENV) dist docs/_build tiburon-demo
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# some systems ship python3 without ensurepip; their own pip can then fill the environment
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tiburon needs Python 3.11 or newer, got $$($(PYTHON) --version); use make PYTHON=python3.x" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || \
	  { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(VENV) install pip; }

$(VENV)/installed-core-$(HASH): | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@rm -f $(VENV)/installed-core-* && touch $@

$(VENV)/installed-%-$(HASH): | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@rm -f $(VENV)/installed-$*-* && touch $@
