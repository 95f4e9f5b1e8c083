#!/usr/bin/env bash
# Breaks the library on purpose, one mistake at a time, and runs the vectors that must see it: docs/porting.md, "Break it
# on purpose". Run it after compile.sh and test.sh. The last line is `N caught, N survived`.
. "$(dirname "$0")/common.sh"
need_tools
[ -d "$OUT/tests" ] || fail "there are no compiled tests; run scripts/android/test.sh"

caught=0
survived=0

# mutate NAME FILE OLD NEW TESTS: replaces OLD, which occurs once, compiles the file and runs the test classes TESTS.
mutate() {
    local work=$OUT/mutant
    rm -rf "$work"
    mkdir -p "$work/classes"
    "$PYTHON" - "$ANDROID/omnidraft/src/main/kotlin/io/omnidraft/$2" "$work/${2##*/}" "$3" "$4" <<'PY'
import sys
from pathlib import Path

source, mutant, old, new = sys.argv[1:]
text = Path(source).read_text(encoding="utf-8")
if text.count(old) != 1:
    sys.exit(f"{source} has {old!r} {text.count(old)} times; the mutation needs another text")
Path(mutant).write_text(text.replace(old, new), encoding="utf-8")
PY
    kotlinc "${PHONE[@]}" -nowarn -module-name omnidraft -Xfriend-paths="$OUT/main" \
        -cp "$STDLIB:$JAVA8_FILES:$ORT_JAR:$ANDROID_JAR:$OUT/main" -d "$work/classes" "$work/${2##*/}"
    java -Xmx1500m "-Domnidraft.root=$ROOT" -jar "$JAVA_SHARE/junit-platform-console-standalone.jar" \
        -cp "$work/classes:$OUT/tests:$STDLIB:$ORT_JAR:$OUT/main" --scan-classpath "$OUT/tests" \
        --include-classname "$5" --disable-banner --details=summary > "$work/log" 2>&1 || true
    local failed passed
    failed=$(sed -n 's/^\[ *\([0-9]*\) tests failed *\]$/\1/p' "$work/log")
    passed=$(sed -n 's/^\[ *\([0-9]*\) tests successful *\]$/\1/p' "$work/log")
    [ "$((${failed:-0} + ${passed:-0}))" -gt 0 ] || fail "no test ran for $1; see $work/log"
    if [ "$failed" -gt 0 ]; then
        caught=$((caught + 1))
        echo "$1: caught by $failed of $((failed + passed)) tests"
    else
        survived=$((survived + 1))
        echo "$1: SURVIVED $passed tests"
    fi
}

mutate "the target is not rewound" models/OrtModel.kt \
    'this.length = length
    }' 'this.length = maxOf(length, this.length)
    }' '.*\.SessionVectorsTest'
mutate "positions are one too small" models/OrtModel.kt \
    'seqlens.put(0, total - 1)' 'seqlens.put(0, maxOf(0, total - 2))' '.*\.SessionVectorsTest'
mutate "the drafter's window moves by single positions" decoding/Drafter.kt \
    'return maxOf(0, ceilDiv(length - room, half) * half)' 'return maxOf(0, length - room)' '.*\.SessionVectorsTest'
mutate "letters are ASCII letters only" vocab/tokenizer/TextSteps.kt \
    'operator fun get(point: Int): Long = page(point shr PAGE_BITS)[point and (PAGE - 1)]' \
    'operator fun get(point: Int): Long = if (point > 127) 0L else page(0)[point]' '.*\.VocabVectorsTest'
mutate "a merge adds hits" vocab/CacheTable.kt \
    'maxOf(at(column(a), fromA[it]), at(column(b), fromB[it])).toInt()' \
    '(at(column(a), fromA[it]) + at(column(b), fromB[it])).toInt()' '.*\.VocabVectorsTest'

mutate "a token is allowed though the text behind it is too long" grammar/TokenMasks.kt \
    'and 0xffff < room) found' 'and 0xffff <= room) found' '.*\.GrammarVectorsTest'
mutate "no token reaches beyond the fixed bytes" grammar/TokenMasks.kt \
    'trie.beyond(forced(at))' 'IntArray(0)' '.*\.GrammarVectorsTest'
mutate "the nearest move may nest deeper" grammar/GrammarFile.kt \
    'left < closing[state] && deep <= nesting[state]' 'left < closing[state]' '.*\.GrammarVectorsTest'
mutate "an end token may follow anywhere" grammar/TokenMasks.kt \
    'if (grammar.isComplete(at)) for' 'if (at.state >= 0) for' '.*\.GrammarVectorsTest'
mutate "the stack has room for one state more" grammar/Grammar.kt \
    'stack.size + nesting[to] > depth' 'stack.size + nesting[to] > depth + 1' '.*\.GrammarVectorsTest'

echo "$caught caught, $survived survived"
[ "$survived" -eq 0 ]
