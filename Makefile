# make demo: set up, train a small translator on the embedded corpus, translate, score; then the
#   page that steps through what it does with a phrase.
# make test: set up and run the whole test suite, ruff and mypy; tests by two processes that take
#   whole files in turn, so that what a file prepares is prepared once (pytest-xdist), and after them,
#   alone, those that measure time.
# make docs: the site, into site/: the lessons are executed, links are strict (some minutes).
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test
BIN := $(VENV)/bin

.PHONY: demo test check docs clean

demo: $(VENV)/.installed
	$(BIN)/nmt demo
	@echo "Step by step, on a page to open in a browser:"
	@$(BIN)/grads explore attention --model runs/demo --sentence "12 weeks ago or Monday" \
		-o runs/demo/attention.html

test: $(VENV)/.installed-test check
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not alone"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m alone

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	OPENBLAS_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html: written"

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

clean:
	rm -rf $(VENV) build site *.egg-info .pytest_cache .mypy_cache .ruff_cache
