#!/usr/bin/env bash
# Compares the public classes and members of the library with mobile/android/omnidraft/api/omnidraft.api, which a
# reviewer reads. `api.sh --write` writes the file.
. "$(dirname "$0")/common.sh"
need_tools

committed=$ANDROID/omnidraft/api/omnidraft.api
mkdir -p "$OUT/api" "$(dirname "$committed")"
kotlinc -jvm-target 17 -Werror -cp "$STDLIB:$KOTLIN/kotlin-reflect-$KOTLIN_VERSION.jar" -d "$OUT/api/tool" "$HERE/ApiListing.kt"
java -cp "$OUT/api/tool:$KOTLIN/*:$ORT_JAR:$OUT/main" ApiListingKt "$OUT/main" > "$OUT/api/omnidraft.api"
if [ "${1:-}" = --write ]; then
    cp "$OUT/api/omnidraft.api" "$committed"
fi
diff -u "$committed" "$OUT/api/omnidraft.api" ||
    fail "the public interface is not the committed one; if it is meant, run scripts/android/api.sh --write"
echo "public interface: $(grep -c '^[a-z].*{$' "$committed") classes, $(grep -c '^    ' "$committed") members, as committed"
