#!/usr/bin/env bash
# Compiles the library and omnidraft-coroutines against what a phone has: android.jar of level 23 and java.nio.file of
# level 26. A call of a Java class that a phone lacks is an error here, and so is each warning.
. "$(dirname "$0")/common.sh"
need_tools

rm -rf "$OUT/main" "$OUT/omnidraft.jar"
mkdir -p "$OUT/main"
kotlinc "${PHONE[@]}" -module-name omnidraft -Xexplicit-api=strict -Werror -progressive \
    -cp "$STDLIB:$JAVA8_FILES:$ORT_JAR:$ANDROID_JAR" -d "$OUT/main" "$ANDROID/omnidraft/src/main/kotlin"
jar cf "$OUT/omnidraft.jar" -C "$OUT/main" .
# The compiler's own jar has kotlinx.coroutines.
rm -rf "$OUT/coroutines"
kotlinc "${PHONE[@]}" -module-name omnidraft-coroutines -Xexplicit-api=strict -Werror -progressive \
    -cp "$STDLIB:$JAVA8_FILES:$ANDROID_JAR:$OUT/main:$(ls "$KOTLIN"/kotlin-jupyter-kernel-*-all.jar)" -d "$OUT/coroutines" \
    "$ANDROID/omnidraft-coroutines/src/main/kotlin"
jar cf "$OUT/omnidraft-coroutines.jar" -C "$OUT/coroutines" .
echo "omnidraft.jar: $(stat -c %s "$OUT/omnidraft.jar") bytes, $(find "$OUT/main" -name '*.class' | wc -l) classes"

wanted=$(grep -c '^fun ' "$HERE/Absent.kt")
refused=$(kotlinc "${PHONE[@]}" -cp "$STDLIB:$JAVA8_FILES:$ANDROID_JAR" -d "$OUT/absent" "$HERE/Absent.kt" 2>&1 |
    grep -c 'error: unresolved reference' || true)
[ "$refused" = "$wanted" ] || fail "of $wanted calls that a phone lacks, $refused were refused; the class path is wrong"
echo "Absent.kt: $refused of $wanted calls that a phone lacks are refused"
