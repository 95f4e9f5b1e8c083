#!/usr/bin/env bash
# Runs a program of the tests, such as a benchmark, in a virtual machine with a heap of 64 MB:
# `program.sh session.FirstTextKt BUNDLE STATE`. It takes the classes that test.sh compiled.
. "$(dirname "$0")/common.sh"
need_tools
[ -d "$OUT/tests" ] || fail "there are no compiled tests; run scripts/android/test.sh"

program=$1
shift
exec java -Xmx64m -XX:+UseSerialGC "-Domnidraft.root=$ROOT" -cp "$OUT/tests:$STDLIB:$ORT_JAR:$OUT/main" "io.omnidraft.$program" "$@"
