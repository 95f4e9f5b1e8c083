#!/usr/bin/env bash
# What the Swift library writes for other languages, and reads of them: scripts/phones/exchange.sh calls it. It takes the
# tests that build.sh compiled.
#
# exchange.sh write FOLDER
# exchange.sh read FOLDER REPORT
. "$(dirname "$0")/common.sh"
need_tools

# The checkout is read-only in Swift's root directory, so Swift writes below $OUT.
rm -rf "$OUT/exchange"
mkdir -p "$OUT/exchange"
work=$(realpath "$2")
case $1 in
write) variables="OMNIDRAFT_EXCHANGE=/out/exchange" ;;
read) variables="OMNIDRAFT_EXCHANGE=/checkout/${work#"$ROOT/"} OMNIDRAFT_REPORT=/out/exchange/report" ;;
*) fail "exchange.sh takes write or read" ;;
esac
log=$OUT/exchange.log
VARIABLES=$variables swift_package test --skip-build --disable-swift-testing --filter "ExchangeTests/test${1^}s" > "$log" 2>&1 ||
    { cat "$log"; exit 1; }
grep -q "Executed 1 test, with 0 failures" "$log" || { cat "$log"; fail "the program did not run"; }
case $1 in
write) cp -r "$OUT/exchange/." "$work" ;;
read) cp "$OUT/exchange/report" "$3" ;;
esac
