# Each target first installs what it needs into .venv. Minutes are those of two cores.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test
BIN := $(VENV)/bin
# Hundreds of processes, which tests start, read what the first has compiled. Containers often set this.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test suite check versions docs notebooks build clean

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.installed ## train a small translator, translate, score, write a stepper page (3 minutes)
	$(BIN)/nmt demo
	@echo "Step by step, on a page to open in a browser:"
	@$(BIN)/grads explore attention --model runs/demo --sentence "12 weeks ago or Monday" \
		-o runs/demo/attention.html

test: check suite ## the whole test suite, ruff and mypy (7 minutes)

# Two processes take whole files in turn, so that what a file prepares is prepared once; the tests that
# measure time run after them, with nothing beside them.
suite: $(VENV)/.installed-test ## the test suite alone
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not alone"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m alone \
		$$(grep -lr --include='test_*.py' 'mark\.alone' tests)

check: $(VENV)/.installed-test ## ruff and mypy (1 minute)
	$(BIN)/ruff check .
	$(BIN)/mypy

versions: ## the quick tests with Pythons 3.11 to 3.14 and the oldest and newest NumPy (20 minutes)
	$(PYTHON) tests/versions.py

docs: $(VENV)/.installed-docs ## the site, into site/; the lessons are executed (3 minutes)
	OPENBLAS_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html: written"

notebooks: ## the lessons as Jupyter notebooks, into docs/lessons
	$(PYTHON) docs/lessons/make_notebooks.py

build: $(VENV)/.installed-test ## a wheel and a source distribution, into dist/ (1 minute)
	$(BIN)/python -m build --outdir dist .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml setup.py | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[plot]'
	touch $@

$(VENV)/.installed-test: pyproject.toml setup.py | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[$(EXTRAS)]'
	touch $@

$(VENV)/.installed-docs: pyproject.toml setup.py | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[docs]'
	touch $@

clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) .venv-versions build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache
