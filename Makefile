# `make` alone lists the targets. Each creates its own environment, .venv, on first use.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

EPOCHS ?= 40
SITE := docs/_build/html

# Modules are compiled once, not by each of a hundred processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo lint format ui
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

install: $(INSTALLED) ## create .venv with everything that development and the tests need

# The stamp comes last, so that a failed installation is repeated. Modules are compiled when they are
# first imported: compiling all takes two minutes.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "tsformer needs Python 3.11 or newer; pass its path: make install PYTHON=/path/to/python" >&2; exit 1; }
	@rm -f $@
	@echo "creating .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@echo "installing tsformer and its dependencies, log in .venv/install.log"
	@$(BIN)/python -m pip install --no-compile --constraint constraints.txt --editable ".[all,docs,test,dev,ui-test]" >.venv/install.log 2>&1 \
		|| { tail -n 20 .venv/install.log >&2; exit 1; }
	@touch $@

# One thread: models this small gain little from a second, and lose much when the cores are busy.
demo test test-fast test-slow test-all coverage: export OMP_NUM_THREADS := 1

demo: install ## compare six encodings on two real data sets, the short one within two minutes
	@$(BIN)/tsformer demo --max-epochs $(EPOCHS)

# The ground floors without what trains or measures; all else is left to `make test`.
FAST := tests/augmentation tests/encodings tests/model tests/data tests/test_golden.py tests/test_structure.py \
	--ignore tests/encodings/test_cost.py --ignore tests/encodings/test_learns_order.py

.PHONY: test test-fast test-slow test-all coverage
test: install ## run the tests of less than three seconds, with SLOW=1 those of test-slow too; TSFORMER_DATA=FOLDER has archives
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -rs \
		-m "not exhaustive$(if $(SLOW),, and not slow and not processes)"

# In one call, since a worker takes half a minute to collect tests.
ifdef SLOW
test: browser $(SITE)/index.html
test: export TSFORMER_TEST_UI := 1
endif

test-fast: install ## run the tests of encodings, augmentation, model, data and saved models, in a minute
	$(BIN)/python -m pytest -n 2 -m "not slow and not processes and not exhaustive and not archive" $(FAST)

test-slow test-all: export TSFORMER_TEST_UI := 1
test-slow: browser $(SITE)/index.html ## run the tests that are slow, kill processes or look at pages in a real browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -rs -m "(slow or processes) and not exhaustive"

test-all: browser $(SITE)/index.html ## run every test, of all configurations too, in two hours
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Environments of their own, without the extras where the lowest versions are asked for.
LOWEST := .venv-lowest
LOWEST_INSTALLED := $(LOWEST)/.installed
NEWEST := .venv-newest

$(LOWEST_INSTALLED): pyproject.toml constraints-lowest.txt
	@rm -f $@
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --constraint constraints-lowest.txt --editable ".[test]"
	@touch $@

.PHONY: test-lowest test-newest
test-lowest test-newest: export OMP_NUM_THREADS := 1
test-lowest: $(LOWEST_INSTALLED) ## run the tests of test-fast with the lowest versions allowed, in .venv-lowest
	$(LOWEST)/bin/python -m pytest -n 2 -m "not slow and not processes and not exhaustive and not archive" $(FAST)

# Without sktime and aeon, which hold NumPy and pandas back.
test-newest: ## run the tests of test with the newest versions there are, in .venv-newest
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --upgrade --upgrade-strategy eager --editable \
		".[tracking,plots,cli,dask,explain,parquet,onnx,statistics,test]"
	$(NEWEST)/bin/python -m pytest -n 2 --dist loadfile -m "not exhaustive and not slow and not processes" \
		--ignore tests/tools --ignore tests/test_docstrings.py --ignore tests/baselines

# Not `install`: a machine with a GPU may have no more than torch, NumPy, pandas and scikit-learn.
.PHONY: gpu
gpu: ## on a machine with a GPU: run what is marked cuda, measure, write experiments/results/gpu
	$(or $(wildcard $(BIN)/python),$(PYTHON)) experiments/gpu/run.py --commit

coverage: install ## measure line and branch coverage of tsformer/ by all tests but those of processes
	$(BIN)/python -m coverage erase
	$(BIN)/python -m pytest -n 2 -m "not processes and not exhaustive" --cov --cov-report=
	$(BIN)/python -m coverage report

.PHONY: mutants
mutants: export OMP_NUM_THREADS := 1
mutants: install ## break single statements of the package and list the mutants that no test catches, in an hour
	$(BIN)/python tools/mutants.py build/mutants/list.csv --again experiments/results/mutants/fresh.csv

.PHONY: docs-tables docs-pictures
docs-tables: install ## rewrite the generated tables and pages of docs/ from the committed results
	$(BIN)/python tools/write_docs.py

docs-pictures: install ## redraw the pictures of all encodings and augmentations in experiments/results
	$(BIN)/python tools/pictures.py --commit

# The gallery's programs run while it is built; pages and programs that did not change are kept.
.PHONY: docs docs-serve
docs docs-serve: export OMP_NUM_THREADS := 1
docs: install ## build the site into docs/_build/html, with warnings as errors
	$(BIN)/python -m sphinx -q -W --keep-going --jobs 2 -d docs/_build/doctrees docs $(SITE)

# The tests of pages need a site, and take the one that is there.
$(SITE)/index.html: | install
	$(MAKE) docs

docs-serve: docs ## show the site on http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory $(SITE) 8000

# One that is there, else Debian's if apt-get may install it, else Playwright's.
.PHONY: browser
browser: install ## find or install a browser for the tests of pages
	@$(BIN)/python tools/browser.py \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -q \
			&& apt-get install -q -y --no-install-recommends chromium; } \
		|| $(BIN)/python -m playwright install chromium \
		|| echo "no browser could be installed, so its tests are skipped; set CHROMIUM=/path/to/chromium"

# Built from the source distribution, so that it is complete, with the setuptools of constraints.txt.
.PHONY: check-release
check-release: ## do package, changelog and citation name the version of the tag $GITHUB_REF_NAME?
	grep -xF "__version__ = \"$${GITHUB_REF_NAME#v}\"" tsformer/_version.py
	grep -m 1 "^## " CHANGELOG.md | grep -xE "## $${GITHUB_REF_NAME#v} - [0-9]{4}-[0-9]{2}-[0-9]{2}"
	grep -xF "version: $${GITHUB_REF_NAME#v}" CITATION.cff
	grep -xF "date-released: $$(grep -m 1 '^## ' CHANGELOG.md | sed 's/.* - //')" CITATION.cff

.PHONY: dist
dist: install ## build the source distribution and the wheel into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

lint: install ## check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## rewrite the code in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

ui: install ## show the tracked runs of this folder in MLflow's pages
	$(BIN)/tsformer ui
