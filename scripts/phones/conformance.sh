#!/usr/bin/env bash
# What `make conformance` does: the vectors in Python, the tests of both ports, the files that cross, and the table. The
# tools are those of make android and make ios.
. "$(dirname "$0")/common.sh"

rm -rf "$RESULTS"
mkdir -p "$RESULTS"
(cd "$ROOT" && OMNIDRAFT_RESULTS=$RESULTS/python.json "$PYTHON" -m pytest -q tests/conformance/test_vectors.py)
timed "starter bundles" bash "$ROOT/scripts/android/bundles.sh"
for step in setup compile test; do
    timed "Kotlin: $step" bash "$ROOT/scripts/android/$step.sh"
done
for step in setup build test; do
    timed "Swift: $step" bash "$ROOT/scripts/ios/$step.sh"
done
timed "files" bash "$PHONES/exchange.sh"
"$PYTHON" "$PHONES/conformance.py" "$ROOT/spec/vectors/manifest.json" "$RESULTS" "$BUNDLES/expected"
echo "docs/conformance.md is written"
