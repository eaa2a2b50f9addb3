# make demo | test | test-serving | lint | docs | bench …: each makes .venv on its first call
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# mypy cannot see through the package map, so it reads the tree as the wheel lays it out
TYPES := rm -rf build/types && mkdir -p build/types && cp -r tfx_transformer build/types \
  && cp -r models train build/types/tfx_transformer \
  && cd build/types && ../../$(BIN)/python -m mypy --config-file ../../pyproject.toml

.PHONY: demo test test-slow test-serving lint format docs tutorials test-backends bench clean

demo: $(INSTALLED)
	$(BIN)/tfx-transformer demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "not slow and not serving and not docs"

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

# The page's tests also need a Chromium, which pip cannot install; they are skipped without one.
test-serving: $(INSTALLED)
	$(BIN)/python -c "import fastapi, playwright, ray" 2>/dev/null \
	  || $(BIN)/pip install --quiet --editable ".[serve,ray]" playwright
	$(BIN)/python -m pytest -m serving

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(TYPES)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, in site/, and the code of its pages; a broken link or a missing reference is an error.
docs: $(INSTALLED)
	$(BIN)/python -c "import material, mkdocstrings_handlers.python" 2>/dev/null \
	  || $(BIN)/pip install --quiet --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m docs tests/test_docs.py tests/test_readme.py

# Runs the tutorials, some minutes each, and records their outputs and pictures for the site.
tutorials: $(INSTALLED)
	for script in docs/tutorials/*.py; do $(BIN)/python docs/percent.py $$script || exit 1; done
	rm -rf docs/tutorials/exported

# The layers use keras.ops alone: they run on the other backends too (torch where it is installed).
test-backends: $(INSTALLED)
	$(BIN)/python -c "import jax" 2>/dev/null || $(BIN)/pip install --quiet --editable ".[jax]"
	KERAS_BACKEND=jax $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not serving and not docs" tests/layers tests/contracts
	if $(BIN)/python -c "import torch" 2>/dev/null; then \
	  KERAS_BACKEND=torch $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not serving and not docs" tests/layers tests/contracts; fi

bench: $(INSTALLED)
	$(BIN)/python benchmarks/blocks.py

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip setuptools
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@

clean:
	rm -rf .venv build dist site *.egg-info runs
