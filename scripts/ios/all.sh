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
# The tests use one core for the most part, and so does a sanitizer's build: both go on beside each other.
behind() {
    timed "tests" bash "$HERE/test.sh" > "$OUT/test.txt" 2>&1
    # With Kotlin where make android ran before.
    [ -d "$ROOT/.cache/android/tests" ] && ports="kotlin swift" || ports=swift
    timed "files of other languages" bash "$PHONES/exchange.sh" $ports > "$OUT/exchange.txt" 2>&1
    timed "sample" bash "$HERE/sample.sh" > "$OUT/sample.txt" 2>&1
}
rm -f "$OUT"/{test,exchange,sample}.txt
behind &
behind=$!
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
timed "thread sanitizer" bash "$HERE/sanitize.sh" thread
timed "address sanitizer" bash "$HERE/sanitize.sh" address
status=0
wait "$behind" || status=$?
for part in test exchange sample; do [ ! -e "$OUT/$part.txt" ] || cat "$OUT/$part.txt"; done
[ "$status" = 0 ] || exit "$status"
echo "== together: $SECONDS s"
awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 } END { print passed " passed, " failed " failed" }' \
    "$OUT/test.txt" "$OUT/sample.txt"
