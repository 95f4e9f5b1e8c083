#!/usr/bin/env bash
# All that `make android` does: tools, libraries, public interface, Maven repository, starter bundles, APK, tests.
. "$(dirname "$0")/common.sh"

mkdir -p "$OUT"
timed "tools" bash "$HERE/setup.sh"
# Exporting and compiling use one core each for the most part.
timed "starter bundles" bash "$HERE/bundles.sh" > "$OUT/bundles.log" 2>&1 &
bundles=$!
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
timed "library" bash "$HERE/compile.sh"
timed "public interface" bash "$HERE/api.sh"
timed "Maven repository" bash "$HERE/maven.sh"
timed "compiled tests" bash "$HERE/compile_tests.sh"
wait "$bundles" || { cat "$OUT/bundles.log"; exit 1; }
cat "$OUT/bundles.log"
timed "APK" bash "$HERE/apk.sh" > "$OUT/apk.log" 2>&1 &
apk=$!
timed "tests" bash "$HERE/test.sh" | tee "$OUT/test.txt"
wait "$apk" || { cat "$OUT/apk.log"; exit 1; }
cat "$OUT/apk.log"
echo "== together: $SECONDS s"
grep -E '^[0-9]+ passed, [0-9]+ failed$' "$OUT/test.txt"
