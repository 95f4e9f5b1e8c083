#!/usr/bin/env bash
# All that `make ios` does: tools, form of the sources, library and tests, starter bundles, tests.
. "$(dirname "$0")/common.sh"

mkdir -p "$OUT"
timed "tools" bash "$HERE/setup.sh"
timed "form" bash "$HERE/format.sh"
timed "library and tests" bash "$HERE/build.sh"
timed "starter bundles" bash "$ROOT/scripts/android/bundles.sh"
timed "tests" bash "$HERE/test.sh" | tee "$OUT/test.txt"
echo "== together: $SECONDS s"
grep -E '^[0-9]+ passed, [0-9]+ failed$' "$OUT/test.txt"
