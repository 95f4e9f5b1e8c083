#!/usr/bin/env bash
# All that `make ios` does: tools, form of the sources, library and tests, public interface, the README's code,
# starter bundles, tests, a part of the tests with each sanitizer, files that cross languages, and the sample. The last line
# counts the tests of the library and of the sample.
. "$(dirname "$0")/common.sh"

mkdir -p "$OUT"
timed "tools" bash "$HERE/setup.sh"
timed "form" bash "$HERE/format.sh"
timed "library and tests" bash "$HERE/build.sh"
timed "public interface" bash "$HERE/api.sh"
timed "README.md" bash "$HERE/readme.sh"
timed "starter bundles" bash "$ROOT/scripts/android/bundles.sh"
# The tests use one core for the most part, and a sanitizer's build both.
timed "tests" bash "$HERE/test.sh" > "$OUT/test.txt" 2>&1 &
tests=$!
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
timed "thread sanitizer" bash "$HERE/sanitize.sh" thread
timed "address sanitizer" bash "$HERE/sanitize.sh" address
wait "$tests" || { cat "$OUT/test.txt"; exit 1; }
cat "$OUT/test.txt"
# With Kotlin where make android ran before.
[ -d "$ROOT/.cache/android/tests" ] && ports="kotlin swift" || ports=swift
timed "files of other languages" bash "$PHONES/exchange.sh" $ports
timed "sample" bash "$HERE/sample.sh" | tee "$OUT/sample.txt"
echo "== together: $SECONDS s"
awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 } END { print passed " passed, " failed " failed" }' \
    "$OUT/test.txt" "$OUT/sample.txt"
