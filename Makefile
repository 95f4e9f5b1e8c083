# Two commands for everyone: `make demo` runs the main job, `make check` the tests.
# Each sets up all it needs in .venv; it takes Python with venv, and make. Exporting (and so the demo) needs
# Python 3.11-3.13, running and testing the runtime 3.10-3.13.

SUITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
FOUND := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUITS)' 2>/dev/null && echo $$p && break; done)
PYTHON ?= $(or $(FOUND),python3)
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo demo-gemma check android ios arm64 bundles conformance test lint tables vectors trial bench qnn fuzz hostile crash setup clean

demo: $(READY)
	$(BIN)/omnidraft demo --out omnidraft-demo

# The same with Gemma 3 270M, which the drafter was never trained for: 238 MB under the Gemma Terms of Use.
demo-gemma: $(READY)
	$(BIN)/omnidraft demo --target gemma3 --out omnidraft-demo-gemma

check: lint test

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@# Types are checked with the export packages there, which Python 3.10 has not.
	if $(BIN)/python -c '$(SUITS)'; then $(BIN)/mypy; fi

test: $(READY)
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder

# Constants and readers of fields in three languages, from the tables in spec/.
tables: $(READY)
	$(BIN)/python spec/make_tables.py

# What every language is compared with; writing it again leaves no diff.
vectors: $(READY)
	$(BIN)/python spec/make_vectors.py
	git diff --exit-code --stat spec/vectors

# The trial implementation (node): the vectors of level core, then every breakage of it that they must catch.
trial:
	node spec/trial/run.mjs
	node spec/trial/mutate.mjs

# The runtime for Android, on Debian and without Gradle: the library against android.jar, its public interface, a signed
# APK of the sample, and the tests with all vectors. Its tools lie outside the checkout; the first time takes root.
android: $(READY)
	scripts/android/all.sh

# The runtime for iOS, on Debian: the form of the sources, the library, its public interface, the tests with all vectors, a
# part of them with each sanitizer, and files that cross languages. It takes root, and Swift lies outside the checkout.
ios: $(READY)
	scripts/ios/all.sh

# The Python runtime on onnxruntime's ARM64 kernels, emulated by QEMU on Debian without root: vectors, tokenizers, rows of
# logits to the bit and greedy texts, on three processors, as tables beside x86-64; the Kotlin library on one of them, where
# the tools of `make android` are. QEMU is slow; nothing is timed.
arm64: $(READY)
	scripts/arm64/all.sh

# Archives of two bundles for the sample apps, with the sizes and SHA-256 that the apps ask for.
bundles: $(READY)
	scripts/bundles.sh

# What passes in Python, Kotlin and Swift, as tables. It runs the vectors, make android and make ios.
conformance: $(READY)
	scripts/phones/conformance.sh

bench: $(READY)
	$(BIN)/python -m benchmarks.host_overhead
	$(BIN)/omnidraft bench omnidraft-demo/my-bundle

# Bounded in time: about a minute on an idle machine, six at most.
fuzz: $(READY)
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_cache --count 100000 --seconds 240
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_manifest --count 10000 --seconds 120
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_trace --count 20000 --seconds 120
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_sync --count 100000 --seconds 120
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_graph --count 100000 --seconds 60
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_archive --count 10000 --seconds 60
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_gguf --count 20000 --seconds 60

# What an attacker tries: bundles, files, templates, stores, servers, kills and signals. Each attempt on a bundle runs
# in a process with five seconds and 500 MB; any traceback, hang, crash, foreign byte or larger growth is an error.
HOSTILE := .cache/hostile
hostile: $(READY)
	test -d $(HOSTILE) || $(BIN)/omnidraft export examples/starters/a -d examples/starters/drafter \
		-o $(HOSTILE) --quant fp32 --max-length 256
	PYTHONPATH=tests $(BIN)/python -m hostile $(HOSTILE)
	PYTHONPATH=tests $(BIN)/python -m hostile.signals $(HOSTILE)
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_graph --count 100000 --seconds 60
	$(BIN)/python -m pytest tests/runtime/bundle/test_checked_files.py tests/runtime/session/test_chat_template.py \
		tests/sync/test_hostile_server.py tests/sync/test_hostile_store.py tests/sync/test_publish.py \
		tests/checkpoints/test_workplace.py

# 200 kills while caches are written, as many while sessions and traces are, and amid publications and pulls; 50
# while a drafter adapts.
crash: $(READY)
	OMNIDRAFT_KILLS=200 $(BIN)/python -m pytest tests/runtime/session/test_crash_safety.py tests/runtime/traces/test_trace_store.py \
		tests/sync/test_sync_crash.py
	OMNIDRAFT_KILLS=50 $(BIN)/python -m pytest tests/learning/test_adapt_crash.py tests/commands/test_learn_cli.py -k killed

# Qualcomm's HTP emulator (x86-64 Linux) in an environment of its own; it takes a bundle made with --npu qnn.
QNN := .venv-qnn
QNN_BUNDLE ?= omnidraft-demo/starter-qnn
qnn: $(READY) $(QNN)/.ready
	test -d $(QNN_BUNDLE) || $(BIN)/omnidraft export examples/starters/b -d examples/starters/drafter \
		-o $(QNN_BUNDLE) --quant fp32 --max-length 256 --npu qnn --config benchmarks/export/qnn.toml
	$(QNN)/bin/python -m benchmarks.export.qnn_check $(QNN_BUNDLE)
	OMNIDRAFT_QNN_PYTHON=$(CURDIR)/$(QNN)/bin/python $(BIN)/python -m pytest tests/export/test_qnn.py

$(QNN)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(QNN)
	$(QNN)/bin/python -m pip install --quiet $(PIP_ARGS) --constraint constraints.txt onnxruntime-qnn==2.7.0 --editable .
	touch $@

setup: $(READY)

# A Debian or Ubuntu without the venv package says so itself, with the command that installs it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --constraint constraints.txt --group dev --editable '.[all]'
	touch $(READY)

clean:
	rm -rf $(VENV) $(QNN) omnidraft-demo omnidraft-demo-gemma .mypy_cache .ruff_cache .pytest_cache .hypothesis
