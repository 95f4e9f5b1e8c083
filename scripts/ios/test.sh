#!/usr/bin/env bash
# Compiles and runs the tests of the library, and lists the vectors that ran. `test.sh PATTERN` runs the tests whose names
# match it. The starter bundles are those of `make android`; without them, or without OMNIDRAFT_DATA, the tests that take
# them are skipped. The last line is `N passed, N failed`.
. "$(dirname "$0")/common.sh"
need_tools

pattern=${1:-}
bash "$HERE/build.sh"
status=0
swift_package test --skip-build --disable-swift-testing ${pattern:+--filter "$pattern"} > "$OUT/tests.log" 2>&1 ||
    status=$?
"$PYTHON" "$HERE/results.py" "$OUT/tests.log" "$ROOT/spec/vectors/manifest.json" "$pattern" || status=1
exit "$status"
