#!/usr/bin/env bash
# Runs the tests of the library that build.sh compiled, and lists the vectors that ran. `test.sh PATTERN` runs the tests whose
# names match it. The starter bundles are those of `make android`; without them, or without OMNIDRAFT_DATA, the tests that
# take them are skipped. The last line is `N passed, N failed`.
. "$(dirname "$0")/common.sh"
need_tools

pattern=${1:-}
status=0
# ExchangeTests are programs of exchange.sh.
swift_package test --skip-build --disable-swift-testing ${pattern:+--filter "$pattern"} --skip ExchangeTests \
    > "$OUT/tests.log" 2>&1 || status=$?
cd "$ROOT"
"$PYTHON" -m scripts.ios.results "$OUT/tests.log" spec/vectors/manifest.json "$RESULTS/swift.json" "$pattern" || status=1
exit "$status"
