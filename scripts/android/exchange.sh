#!/usr/bin/env bash
# What the Kotlin library writes for other languages, and reads of them: scripts/phones/exchange.sh calls it. It takes the
# classes that test.sh compiled.
#
# exchange.sh write FOLDER
# exchange.sh read FOLDER REPORT
. "$(dirname "$0")/common.sh"
need_tools
[ -d "$OUT/tests" ] || fail "there are no compiled tests; run scripts/android/test.sh"

program=$1
shift
java -Xmx512m "-Domnidraft.root=$ROOT" -cp "$OUT/tests:$STDLIB:$ORT_JAR:$OUT/main" \
    "io.omnidraft.exchange.${program^}ExchangeKt" "$BUNDLES/learning" "$@"
