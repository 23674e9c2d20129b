# Two commands matter: `make run` and `make test`. Both set up what they need.

VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?= python3
STAMP := $(VENV)/.installed
NATIVE := $(wildcard app/ggscope/native/*.[ch]) $(addprefix app/ggscope/native/,declared.py build.py) \
	$(wildcard capture/ggscope_capture/native/*.[ch] capture/ggscope_capture/native/cuda/*.[ch]) capture/ggscope_capture/native/build.py
SYSTEM := $(VENV)/.system
SAMPLE := resources/samples/llama.ggmlviz

.PHONY: run demo llama test test-fast test-nightly fuzz walk soak bench bench-capture count-files lint lock docs check samples wheel package clean help
.DEFAULT_GOAL := help

help:
	@echo "make run [ARGS='FILE …']   open the viewer (on a sample without ARGS)"
	@echo "make demo                  trace a real llama.cpp on a made model, and watch it run"
	@echo "make llama                 build llama.cpp for the tests of capture, once (minutes)"
	@echo "make test-fast             contract, unit, property and golden tests; two minutes"
	@echo "make test [ARGS='-k …']    run every test, GUI and GL ones included"
	@echo "make test-nightly          whole sweeps, benchmarks, mutated files, random walk"
	@echo "make fuzz [MINUTES=10]     mutate files and read them, CASES=1000 of each reader, ARGS='--reader npu-json'"
	@echo "make walk [MINUTES=30]     random keys and mouse on the window, SEED=1"
	@echo "make soak [MINUTES=60]     record a llama-server under load, and watch the memory"
	@echo "make bench [SIZE=33]       measure opening, frames and memory; SIZE in millions"
	@echo "make bench-capture         ns per record, and tokens per second with and without"
	@echo "make count-files           count the files that run on the way to an answer"
	@echo "make lint                  ruff, mypy, import contracts, commit subjects"
	@echo "make lock                  pin what packages are built of: packaging/requirements.lock"
	@echo "make docs                  build the site, in build/site"
	@echo "make samples               write resources/samples again"
	@echo "make wheel                 wheel and source distribution, in dist/"
	@echo "make package               these, .deb, .rpm and .tar.zst; ARGS='--without-sql deb'"

run: $(STAMP) $(SYSTEM)
	@$(VENV)/bin/ggscope $(if $(ARGS),$(ARGS),$(SAMPLE))

demo: $(STAMP) $(SYSTEM)
	@$(VENV)/bin/ggscope --demo $(ARGS)

llama: $(STAMP)
	@$(PY) packaging/build_llama.py

test: $(STAMP) $(SYSTEM)
	@packaging/run-tests.sh $(ARGS)

test-fast: $(STAMP) $(SYSTEM)
	@TIER=fast packaging/run-tests.sh

# MINUTES for each of the two campaigns; the same SEED does the same.
test-nightly: $(STAMP) $(SYSTEM)
	@TIER=nightly packaging/run-tests.sh
	@$(MAKE) --no-print-directory fuzz MINUTES=$(or $(MINUTES),10)
	@$(MAKE) --no-print-directory walk MINUTES=$(or $(MINUTES),10) SEED=$(or $(SEED),1)

fuzz: $(STAMP)
	@PYTHONPATH=tests $(PY) -m fuzzing.campaign \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(CASES),--cases $(CASES)) $(ARGS)

walk: $(STAMP) $(SYSTEM)
	@xvfb-run -a -s "-screen 0 1920x1200x24 +extension GLX" $(PY) packaging/walk.py \
		--minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(ARGS)

soak: $(STAMP)
	@$(PY) packaging/soak.py --minutes $(or $(MINUTES),60) $(ARGS)

bench: $(STAMP) $(SYSTEM)
	@packaging/run-bench.sh $(if $(SIZE),--size "$(SIZE)") $(ARGS)

bench-capture: $(STAMP)
	@$(PY) packaging/bench_capture.py $(ARGS)

count-files: $(STAMP) $(SYSTEM)
	@QT_QPA_PLATFORM=offscreen $(PY) packaging/count_files.py $(ARGS)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) packaging/commit_subjects.py

# Works without a server: open build/site/index.html.
docs: $(STAMP)
	@$(PY) -m pip install --quiet --editable '.[docs]'
	@$(PY) packaging/make_docs.py
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

# Versions and hashes of what release builds install, for all systems at once.
lock: $(STAMP)
	@$(PY) -m pip install --quiet "uv>=0.5"
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(PY) -m uv pip compile pyproject.toml - \
		--universal --python-version 3.11 --generate-hashes --upgrade --quiet \
		--extra build --extra sql \
		--custom-compile-command "make lock" -o packaging/requirements.lock

check: lint test

samples: $(STAMP)
	$(PY) packaging/make_samples.py resources/samples

wheel: $(STAMP)
	@$(PY) packaging/package.py wheel

package: $(STAMP)
	@$(PY) packaging/package.py $(ARGS)

# The environment: made once, made again when the list of packages or the library changes.
$(STAMP): pyproject.toml packaging/setup.sh hatch_build.py $(NATIVE)
	@packaging/setup.sh python "$(PYTHON)" "$(VENV)"
	@touch $@

# System libraries that Qt and the tests need; asks the package manager or says
# which command to run.
$(SYSTEM): packaging/setup.sh $(STAMP)
	@packaging/setup.sh system "$(VENV)"
	@touch $@

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .ruff_cache .benchmarks tests/golden/failed \
		build/bench-bytecode build/test-bytecode
