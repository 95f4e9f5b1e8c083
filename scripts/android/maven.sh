#!/usr/bin/env bash
# Makes a Maven repository of the libraries, .cache/android/maven, and uses it as an app does: the Kotlin blocks of
# mobile/android/README.md are compiled with the jar, what its POM asks for, and android.jar.
. "$(dirname "$0")/common.sh"
need_tools

repository=$OUT/maven
work=$OUT/readme
rm -rf "$repository" "$work"
mkdir -p "$work"
cd "$ROOT"
"$PYTHON" -m scripts.android.maven "omnidraft=$OUT/main" "omnidraft-coroutines=$OUT/coroutines" "$repository"

# jars_of ARTIFACT: its jar, and those of the dependencies in its POM.
jars_of() {
    local jar artifact
    case $1 in
        kotlin-stdlib) echo "$STDLIB"; return ;;
        kotlinx-coroutines-core) ls "$KOTLIN"/kotlin-jupyter-kernel-*-all.jar; return ;;
        omnidraft*) jar=$(ls "$repository/io/omnidraft/$1"/*/"$1"-[0-9]*[0-9].jar) ;;
        *) fail "a POM asks for $1" ;;
    esac
    echo "$jar"
    for artifact in $(sed -n '/<dependency>/s/.*<artifactId>\(.*\)<\/artifactId>.*/\1/p' "${jar%.jar}.pom"); do
        jars_of "$artifact"
    done
}

"$PYTHON" -m scripts.phones.readme mobile/android/README.md "$work"
cat > "$work/Lifecycle.kt" << END
package androidx.lifecycle

abstract class ViewModel {
    protected open fun onCleared() {}
}

val ViewModel.viewModelScope: kotlinx.coroutines.CoroutineScope get() = kotlinx.coroutines.MainScope()
END
kotlinc -jvm-target 17 -Werror -Xwarning-level=UNUSED_VARIABLE:disabled \
    -cp "$(jars_of omnidraft-coroutines | sort -u | paste -sd:):$ANDROID_JAR" -d "$work" "$work"/*.kt
echo "README.md: its blocks compile with the Maven repository"
