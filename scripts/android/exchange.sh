#!/usr/bin/env bash
# Files that cross languages: what Kotlin writes is read by Python, and what Python writes is read and written again by
# Kotlin. Sessions, caches, adapters, traces and pushes. Run it after test.sh.
. "$(dirname "$0")/common.sh"
need_tools
[ -d "$OUT/tests" ] || fail "there are no compiled tests; run scripts/android/test.sh"

work=$OUT/exchange
rm -rf "$work"
mkdir -p "$work/session" "$work/learned" "$work/rewritten"

# kotlin CLASS ARGUMENTS: runs a program of the tests.
kotlin() {
    java -Xmx512m "-Domnidraft.root=$ROOT" -cp "$OUT/tests:$STDLIB:$ORT_JAR:$OUT/main" "io.omnidraft.$@"
}

learning=$OUT/bundles/learning
kotlin learning.WriteLearnedKt "$learning" "$work/learned"
"$PYTHON" "$HERE/check_learned.py" "$learning" "$work/learned"
kotlin session.WriteSessionKt "$learning" "$work/session" "$work/learned/learned.safetensors"
"$PYTHON" "$HERE/check_session.py" "$learning" "$work/session"
kotlin traces.ReadTraces "$OUT/bundles/expected/learning/traces" "$work/traces.json"
kotlin traces.WriteTraces "$work/traces.json" "$work/rewritten"
"$PYTHON" "$HERE/check_traces.py" "$OUT/bundles/expected/learning/traces" "$work/rewritten"
echo "exchange: sessions, caches, adapters, traces and pushes are read"
