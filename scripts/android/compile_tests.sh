#!/usr/bin/env bash
# Compiles the tests of the libraries and of the sample's presenter, once for each version of them and of the library.
. "$(dirname "$0")/common.sh"
need_tools

coroutines=$ANDROID/omnidraft-coroutines/src/test/kotlin
sources=("$ANDROID/omnidraft/src/test/kotlin" "$ANDROID/sample/src/main/presenter" "$ANDROID/sample/src/test/kotlin")
stamp=$(find "${sources[@]}" "$coroutines" "$OUT"/{main,coroutines} "$HERE"/{common,compile_tests}.sh -type f -print0 | sort -z | xargs -0 sha256sum |
    sha256sum | cut -d' ' -f1)
if [ "$(cat "$OUT/tests.stamp" 2> /dev/null)" = "$stamp" ]; then
    echo "compiled tests: as before"
    exit 0
fi
rm -rf "$OUT"/{tests,presenter,coroutines_tests,tests.stamp}
mkdir -p "$OUT/tests" "$OUT/presenter"
kotlinc -Xfriend-paths="$OUT/main" -jvm-target 17 -module-name omnidraft_test -cp "$STDLIB:$ORT_JAR:$OUT/main:$JUNIT" \
    -d "$OUT/tests" "${sources[0]}"
kotlinc -jvm-target 17 -Werror -module-name sample -cp "$STDLIB:$ORT_JAR:$OUT/main:$JUNIT" -d "$OUT/presenter" "${sources[@]:1}"
kotlinc -jvm-target 17 -Werror -module-name coroutines_test \
    -cp "$STDLIB:$OUT/main:$OUT/coroutines:$JUNIT:$(ls "$KOTLIN"/kotlin-jupyter-kernel-*-all.jar)" -d "$OUT/coroutines_tests" "$coroutines"
echo "$stamp" > "$OUT/tests.stamp"
