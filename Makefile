# Everything runs in .venv, made once by start.py; nothing is registered outside this folder.
#   make lab                              open the course in JupyterLab
#   make lab ARGS="--no-browser --port 8899"
#   make test                             lint, build check and the test suite: of large families a few
#   make test-sweep                       the others of these families; CI runs both
#   make test LESSON=03                   what concerns one lesson, whole families
# PYTHON= chooses the interpreter (3.11 or newer), TORCH_INDEX= where torch comes from, PIP_ARGS= is
# handed to pip, and BIN=/some/bin uses an environment of your own (a GPU machine's, conda's) instead
# of making .venv.
PYTHON ?= python3
BIN ?= .venv/bin
ARGS ?=
export PIP_ARGS TORCH_INDEX

# Where bytecode is not kept, each worker compiles all tests anew: 8 of the 20 seconds of processor
# time in which it finds them.
PYTEST = MAKEFLAGS= PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest
TWO = -n 2 --dist worksteal
ALL = not gpu and not slow

ifeq ($(BIN),.venv/bin)
LAB := .venv/.lab
DEV := .venv/.dev
endif

MUTANTS = PYTHONPATH=tests $(BIN)/python -m mutants $(if $(EXERCISE),--exercise $(EXERCISE)) \
    $(if $(LESSON),--lesson $(LESSON)) $(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED)) \
    $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(PAIRS),--pairs $(PAIRS)) \
    $(if $(MINUTES),--minutes $(MINUTES)) $(if $(OUT),--out $(OUT)) \
    $(if $(BEFORE),--before $(BEFORE)) $(ARGS)

.PHONY: help sizes verdicts mutants rewrites lab test watch coverage test-sweep test-gpu test-slow test-browser test-nbgrader test-colab test-triton lint quick-lint types suite build bench

help:
	@echo "make lab | test [LESSON=NN] | watch [LESSON=NN] | coverage | test-sweep | test-gpu | test-slow | test-browser | test-nbgrader | test-colab | test-triton | lint | build | bench | sizes | verdicts | mutants | rewrites"

lab: $(LAB)
	@exec $(BIN)/python -m course_lib.cli lab $(ARGS)

ifdef LESSON
test: $(DEV)
	$(BIN)/course build --check
	$(PYTEST) $(TWO) -m "$(ALL)" --lesson $(LESSON) $(ARGS)
else
test: quick-lint
	@$(MAKE) --no-print-directory -j 2 types suite
endif

suite: $(DEV)
	$(PYTEST) $(TWO) -m "$(ALL) and not sweep" $(ARGS)

# on every save: build the notebooks, run the tests of the saved file's lesson (or of LESSON)
watch: $(DEV)
	$(BIN)/watchfiles --filter python "$(BIN)/python .ci/on_save.py $(LESSON)" sources course_lib tests

# what runs in children (zygotes, notebooks' kernels, the command line) is not counted
coverage: $(DEV)
	$(PYTEST) $(TWO) -m "$(ALL)" --cov --cov-report= $(ARGS)
	$(BIN)/python .ci/rooms.py

test-sweep: $(DEV)
	$(PYTEST) $(TWO) -m "$(ALL) and sweep" $(ARGS)

test-gpu: $(DEV)
	$(PYTEST) -m gpu $(ARGS)

test-slow: $(DEV)
	$(PYTEST) -m slow $(ARGS)

test-browser: $(DEV)
	$(PYTEST) -m browser $(ARGS)

lint: quick-lint types

quick-lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/course build --check

# the first time mypy reads torch, for half a minute: `make test` does it beside the suite
types: $(DEV)
	$(BIN)/mypy

build: $(DEV)
	$(BIN)/course build

sizes:
	@$(BIN)/python benchmarks/sizes.py

bench: $(DEV) .env-nbgrader/.done
	for file in benchmarks/*.py; do $(BIN)/python "$$file" || exit 1; done

# what the check says of each submission of tests/submissions: compare before and after a change;
# ARGS=--seeds=20: right ones at 20 seeds, and which do not pass at one
verdicts: $(DEV)
	@$(BIN)/python tests/verdicts.py $(ARGS)

# mutants of right programs, which must fail, and rewrites, which must pass: [EXERCISE=7.4]
# [LESSON=07] [JOBS=16] [SAMPLE=50] [PAIRS=20] [MINUTES=10] [SEED=1] [OUT=file] [BEFORE=file]
mutants:
	@$(MUTANTS)

rewrites:
	@$(MUTANTS) --rewrites

# nbgrader adds panels to every JupyterLab of its environment: it gets one of its own.
test-nbgrader: $(DEV) .env-nbgrader/.done
	PATH="$(CURDIR)/.env-nbgrader/bin:$$PATH" python .ci/check_nbgrader.py

.env-nbgrader/.done: constraints.txt
	$(PYTHON) -m venv .env-nbgrader
	.env-nbgrader/bin/python -m pip install --quiet $(PIP_ARGS) -c constraints.txt nbgrader==0.9.6
	@touch $@

# other Triton versions, from the oldest that we promise
test-triton: $(DEV)
	.ci/test_triton

# Colab's older notebook stack, in an environment of its own; the course comes as its wheel
test-colab: .env-colab/.done
	OMP_NUM_THREADS=1 .env-colab/bin/python -m pytest -W ignore -m "not browser and not slow and not gpu" \
	    tests/widgets
	rm -rf build .env-colab/wheel
	.env-colab/bin/python -m pip wheel --quiet --no-deps --wheel-dir .env-colab/wheel .
	.env-colab/bin/python -m pip install --quiet --no-deps --force-reinstall .env-colab/wheel/*.whl
	PATH="$(CURDIR)/.env-colab/bin:$$PATH" python .ci/check_colab.py

.env-colab/.done: .ci/constraints-colab.txt
	$(PYTHON) -m venv .env-colab
	.env-colab/bin/python -m pip install --quiet $(PIP_ARGS) -c .ci/constraints-colab.txt \
	    anywidget ipykernel ipython ipywidgets matplotlib numpy torch triton nbclient rich setuptools threadpoolctl \
	    hypothesis pytest pytest-timeout
	@touch $@

.venv/.lab .venv/.dev: pyproject.toml constraints.txt
	@$(PYTHON) start.py --install $(@:.venv/.%=%)
