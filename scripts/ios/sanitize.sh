#!/usr/bin/env bash
# Runs a part of the tests with a sanitizer of Swift: sanitize.sh thread, or sanitize.sh address. A report of the sanitizer
# ends the run; first it must report a program that has the fault. The library of onnxruntime is compiled without either
# sanitizer, so what it does to memory is not seen.
. "$(dirname "$0")/common.sh"
need_tools

case ${1:-} in
# What runs in several threads: sessions, models, the public interface, a step that is ended, traces that sessions share.
thread) tests='ApiTests|StreamTests|ThreadsTests|TraceStoreTests|testOffEndsAStep' ;;
# What reads bytes of others: vectors of files and of the tokenizer, and changed files.
address) tests='Fuzz|VocabVectorsTests|TracesVectorsTests|TextVectorsTests|SyncVectorsTests|testInvalid|testOpen|UnpackTests|DiskTests' ;;
*) fail "sanitize.sh takes thread or address" ;;
esac

log=$OUT/$1.log
export VARIABLES="TSAN_OPTIONS=halt_on_error=1 ASAN_OPTIONS=detect_leaks=0"
inside swiftc -swift-version 5 -O "-sanitize=$1" -o "/out/fault-$1" "/checkout/scripts/ios/faults/$1.swift"
if inside "/out/fault-$1" > "$log" 2>&1; then fail "$1: the sanitizer does not report a fault"; fi
grep -q "SUMMARY: .*Sanitizer" "$log" || { cat "$log"; fail "$1: the program with a fault ended without a report"; }

# Code that is not optimized compiles faster, and these tests are short.
export BUILD=build-$1 OPTIMIZE=-Onone
swift_package build --build-tests --quiet --sanitize "$1"
# Long texts and large files take minutes here, and other tests do the same with short and small ones.
slow='testAnArchiveOfPythonIsUnpackedAsPythonDoes|testKeptCostsOfAnotherSpeedAreMeasuredAgain'
slow=$slow'|testAConversationReadsOnlyWhatIsNew|testTheRingKeepsItsBoundAndTheLatest'
swift_package test --skip-build --disable-swift-testing --sanitize "$1" --filter "$tests" --skip "$slow" > "$log" 2>&1 ||
    { tail -n 100 "$log"; fail "$1: failed"; }
count=$(grep -c "^Test Case .* passed" "$log")
[ "$count" -gt 0 ] || fail "$1: no test ran"
echo "$1 sanitizer: $count tests without a report"
