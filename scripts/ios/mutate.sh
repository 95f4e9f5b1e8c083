#!/usr/bin/env bash
# Breaks the library on purpose, one mistake at a time, and runs the vectors that must see it: docs/porting.md, "Break it
# on purpose". The first mutant compiles everything, each further one a file. The last line is `N caught, N survived`.
. "$(dirname "$0")/common.sh"
need_tools
export BUILD=mutants COMPILE=files

mutant=$OUT/mutant # hard links to the sources, so the compiler sees that all files but one are the same
caught=0
survived=0

# in_mutant COMMAND ARGUMENTS: swift_package with the mutant in the place of the checkout.
in_mutant() {
    ROOT=$mutant swift_package "$@"
}

mutate() { # NAME FILE OLD NEW TESTS: replaces OLD, which occurs once, and runs the tests
    rm -rf "$mutant"
    mkdir -p "$mutant/mobile"
    cp -al "$ROOT/mobile/ios" "$mutant/mobile/"
    cp -al "$ROOT/spec" "$ROOT/Package.swift" "$mutant/"
    "$PYTHON" - "$mutant/mobile/ios/Sources/OmniDraft/$2" "$3" "$4" << 'PY'
import sys
from pathlib import Path

place, old, new = sys.argv[1:]
source = Path(place)
text = source.read_text(encoding="utf-8")
if text.count(old) != 1:
    sys.exit(f"{source} has {old!r} {text.count(old)} times; the mutation needs another text")
source.unlink()
source.write_text(text.replace(old, new), encoding="utf-8")
PY
    local log=$OUT/mutant.log
    in_mutant build --build-tests --quiet > "$log" 2>&1 || { cat "$log"; fail "$1 does not compile"; }
    if in_mutant test --skip-build --disable-swift-testing --filter "$5" > "$log" 2>&1; then
        grep -q "Executed [1-9]" "$log" || { cat "$log"; fail "no test ran for $1"; }
        survived=$((survived + 1))
        echo "$1: SURVIVED $(grep -c '^Test Case .* passed' "$log") tests"
    else
        grep -q "^Test Case .* started" "$log" || { cat "$log"; fail "no test ran for $1"; }
        caught=$((caught + 1))
        echo "$1: caught, $(grep -c '^Test Case .* failed' "$log") tests of $(grep -c '^Test Case .* started' "$log") failed"
    fi
}

mutate "the target is not rewound" models/OrtModel.swift \
    'self.length = length
    }' 'self.length = max(length, self.length)
    }' 'SessionVectorsTests|GenerateVectorsTests'
mutate "positions are one too small" models/OrtModel.swift \
    'Int32(total - 1)' 'Int32(max(0, total - 2))' 'SessionVectorsTests|GenerateVectorsTests'
mutate "the drafter's window moves by single positions" decoding/Drafter.swift \
    '(missing + half - 1) / half * half' 'missing + 0 * half' 'SessionVectorsTests|GenerateVectorsTests'
mutate "letters are those of Latin-1 only" vocab/tokenizer/TextSteps.swift \
    'let page = (0..<UInt32(pageSize)).map { compute(first + $0) }' \
    'let page = (0..<UInt32(pageSize)).map { compute(first > 0 ? 0 : $0) }' VocabVectorsTests
mutate "a merge adds hits" vocab/CacheTable.swift \
    'let count = max(
                    fromA[index].map { left.unsigned($0) } ?? 0, fromB[index].map { right.unsigned($0) } ?? 0)' \
    'let count = (fromA[index].map { left.unsigned($0) } ?? 0) + (fromB[index].map { right.unsigned($0) } ?? 0)' \
    VocabVectorsTests
mutate "a token is allowed though the text behind it is too long" grammar/TokenMasks.swift \
    'UInt16(min(room, ' 'UInt16(min(room + 1, ' GrammarVectorsTests
mutate "no token reaches beyond the fixed bytes" grammar/TokenMasks.swift \
    'trie.beyond(forced(at))' '[]' GrammarVectorsTests
mutate "the nearest move may nest deeper" grammar/Grammar.swift \
    ' || deep > nesting[state]' '' GrammarVectorsTests
mutate "an end token may follow anywhere" grammar/TokenMasks.swift \
    'if grammar.isComplete(at) { for' 'if at.state >= 0 { for' GrammarVectorsTests
mutate "the stack has room for one state more" grammar/Grammar.swift \
    'Int(nesting[Int(behind.state)]) > depth' 'Int(nesting[Int(behind.state)]) > depth + 1' GrammarVectorsTests

rm -rf "$mutant"
echo "$caught caught, $survived survived"
[ "$survived" -eq 0 ]
