#!/usr/bin/env bash
# Compiles the Flow wrapper of mobile/android/README.md: the first Kotlin block that imports coroutines.
. "$(dirname "$0")/common.sh"
need_tools

rm -rf "$OUT/readme"
mkdir -p "$OUT/readme"
awk '/^```kotlin$/ { block = ""; inside = 1; next } /^```$/ { if (inside && block ~ /kotlinx/) { printf "%s", block; exit } inside = 0 }
    inside { block = block $0 "\n" }' "$ANDROID/README.md" > "$OUT/readme/Flow.kt"
[ -s "$OUT/readme/Flow.kt" ] || fail "mobile/android/README.md has no block with coroutines"
# The compiler's own jar has kotlinx.coroutines.
kotlinc -jvm-target 17 -Werror -cp "$STDLIB:$OUT/main:$(ls "$KOTLIN"/kotlin-jupyter-kernel-*-all.jar)" -d "$OUT/readme" "$OUT/readme/Flow.kt"
echo "README.md: the Flow wrapper compiles, $(grep -cv '^import\|^$' "$OUT/readme/Flow.kt") lines"
