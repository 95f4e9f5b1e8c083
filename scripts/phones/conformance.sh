#!/usr/bin/env bash
# What `make conformance` does: the vectors in Python, all of make android and make ios, and the table of what ran.
. "$(dirname "$0")/common.sh"

rm -rf "$RESULTS"
mkdir -p "$RESULTS"
cd "$ROOT"
OMNIDRAFT_RESULTS=$RESULTS/python.json "$PYTHON" -m pytest -q tests/conformance/test_vectors.py
bash scripts/android/all.sh
bash scripts/ios/all.sh
"$PYTHON" "$PHONES/conformance.py" spec/vectors/manifest.json "$RESULTS" "$BUNDLES/expected"
