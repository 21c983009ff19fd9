# `make` alone lists what there is. Every target makes its own environment, .venv, on first use.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

EPOCHS ?= 40

.PHONY: help install demo test lint format ui
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

install: $(INSTALLED) ## make .venv with all that development and the tests need

# The stamp comes last, so that an install that failed is tried again.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "tsformer needs Python 3.11 or newer; name one: make install PYTHON=/path/to/python" >&2; exit 1; }
	@rm -f $@
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[all,test,dev]"
	@touch $@

# One thread: models this small gain little from a second, and lose much where the cores are busy.
demo test test-processes: export OMP_NUM_THREADS := 1

demo: install ## train, track and compare four encodings on three real problems
	$(BIN)/tsformer compare --datasets BasicMotions,ItalyPowerDemand,JapaneseVowels \
		--encodings none,fixed,learnable,lspe --seeds 2 --max-epochs $(EPOCHS)

test: install ## run the tests; those on the archive need TSFORMER_DATA=/its/folder
	$(BIN)/python -m pytest -n 2 -m "not processes"

.PHONY: test-processes
test-processes: install ## run the tests that kill workers, drivers, servers and ranks
	$(BIN)/python -m pytest -n 2 -m processes

# aeon wants other versions than the rest; see constraints-aeon.txt. Python is that of .venv.
AEON := .venv-aeon
AEON_INSTALLED := $(AEON)/.installed

$(AEON_INSTALLED): pyproject.toml constraints-aeon.txt | $(INSTALLED)
	@rm -f $@
	$(BIN)/python -m venv $(AEON)
	$(AEON)/bin/python -m pip install --constraint constraints-aeon.txt --editable ".[aeon,test]"
	@touch $@

.PHONY: test-aeon
test-aeon: export OMP_NUM_THREADS := 1
test-aeon: $(AEON_INSTALLED) ## run the tests of the classifier for aeon, in .venv-aeon
	$(AEON)/bin/python -m pytest tests/conformance/test_aeon.py

# The browser: Debian's where this may install it, else the one that Playwright brings, else none.
UI_INSTALLED := .venv/.installed-ui

$(UI_INSTALLED): $(INSTALLED)
	@rm -f $@
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[ui-test]"
	@touch $@

.PHONY: browser test-ui
browser: $(UI_INSTALLED)
	@$(BIN)/python experiments/browser.py \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -q \
			&& apt-get install -q -y --no-install-recommends chromium; } \
		|| $(BIN)/python -m playwright install chromium \
		|| echo "no browser could be installed: the tests in one are skipped; set CHROMIUM=/its/path"

test-ui: export OMP_NUM_THREADS := 1
test-ui: export TSFORMER_TEST_UI := 1
test-ui: browser ## run the tests of MLflow's pages in a real browser, which is installed if it can be
	$(BIN)/python -m pytest -rs tests/ui

lint: install ## check style, types and the direction of the imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## rewrite the code in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

ui: install ## open the tracked runs of this folder in MLflow's pages
	$(BIN)/tsformer ui
