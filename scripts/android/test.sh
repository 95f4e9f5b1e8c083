#!/usr/bin/env bash
# Compiles and runs the JUnit tests of the libraries and of the sample's presenter, and lists the vectors that ran.
# `test.sh PATTERN` runs the classes whose names contain it. Where the data is (OMNIDRAFT_DATA, by default ../shared/data),
# real tokenizers are compared with the package `tokenizers`; else that test is skipped. The last line is
# `N passed, N failed`.
. "$(dirname "$0")/common.sh"
need_tools

pattern=${1:-}
bash "$HERE/compile_tests.sh"
rm -f "$OUT/vectors.txt"
tokenizers=$OUT/tokenizers
if [ -d "$DATA" ] && [ ! -e "$tokenizers/done" ]; then
    timed "tokenizers of the data" "$PYTHON" "$HERE/tokenizer_lines.py" "$DATA" "$tokenizers"
    touch "$tokenizers/done"
fi

tests=$OUT/tests:$OUT/presenter:$OUT/coroutines_tests
status=0
java -Xmx1500m "-Domnidraft.root=$ROOT" "-Domnidraft.bundles=$OUT/bundles" "-Domnidraft.vectors=$OUT/vectors.txt" \
    "-Domnidraft.tokenizers=$tokenizers" \
    -jar "$JAVA_SHARE/junit-platform-console-standalone.jar" \
    -cp "$tests:$STDLIB:$ORT_JAR:$OUT/main:$OUT/coroutines:$(ls "$KOTLIN"/kotlin-jupyter-kernel-*-all.jar)" \
    --scan-classpath "$tests" --include-classname ".*$pattern.*" --disable-banner \
    --details=summary > "$OUT/tests.log" 2>&1 || status=$?
sed -n '/^Failures/,/^Test run/p' "$OUT/tests.log"
cd "$ROOT"
"$PYTHON" -m scripts.android.results "$OUT/tests.log" "$OUT/vectors.txt" spec/vectors/manifest.json "$RESULTS/kotlin.json" \
    "$pattern" || status=1
exit "$status"
