#!/usr/bin/env bash
# Installs what `make android` compiles and tests with: Debian packages, and a folder of tools outside the checkout.
#
# The folder is $OMNIDRAFT_ANDROID_TOOLS, else omnidraft/android below the user's cache; its name ends with a stamp of
# these scripts, so it is made once for each version of them. It holds the Kotlin compiler, android.jar and dx,
# the framework's resources, and the Java API of onnxruntime around the library that .venv runs.
. "$(dirname "$0")/common.sh"

# Program and the package that has it.
PACKAGES="javac:default-jdk-headless gcc:gcc objdump:binutils xz:xz-utils unzip:unzip zip:zip aapt2:aapt
    zipalign:zipalign apksigner:apksigner dexdump:dexdump dpkg-deb:dpkg"

missing_packages() {
    for each in $PACKAGES; do
        command -v "${each%%:*}" > /dev/null || echo "${each##*:}"
    done
    [ -e "$JAVA_SHARE/junit-platform-console-standalone.jar" ] || echo junit5
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
}

install_packages() {
    local missing
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    command -v apt-get > /dev/null || fail "make android takes Debian's apt to install:" $missing
    [ "$(id -u)" = 0 ] || fail "make android takes root once, to install with apt:" $missing
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing > /dev/null
    missing=$(missing_packages)
    [ -z "$missing" ] || fail "apt did not install:" $missing
}

fetch_kotlin() {
    "$PYTHON" -m pip -q --disable-pip-version-check download --no-deps --require-hashes -r "$HERE/requirements.txt" -d "$1"
    (cd "$1" && unzip -q -j ./*.whl 'run_kotlin_kernel/jars/*' -d kotlin && rm ./*.whl)
}

# dex FOLDER NAME JAR: the code of a library as an APK holds it; here, since these libraries do not change.
dex() {
    java -Xmx1500m -cp "$1/bullseye/usr/share/java/$(basename "$DX_JAR")" com.android.dx.command.Main --dex \
        "--min-sdk-version=$MIN_SDK" --output="$1/$2.dex" "$3"
}

dex_libraries() {
    local work=$1/dex
    mkdir -p "$work"
    cp "$1/kotlin/$(basename "$STDLIB")" "$work/stdlib.jar"
    zip -q -d "$work/stdlib.jar" 'META-INF/versions/*'
    (cd "$work" && unzip -q "$1/$(basename "$ORT_JAR")" 'ai/*.class' && jar cf ort.jar ai)
    dex "$1" stdlib "$work/stdlib.jar"
    dex "$1" ort "$work/ort.jar"
    rm -rf "$work"
}

fill() {
    local java_home
    java_home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
    timed "Kotlin compiler" fetch_kotlin "$1"
    timed "android.jar and dx" bash "$PHONES/suite_deb.sh" "$SUITE_ANDROID_JAR" "$1/bullseye" libandroid-23-java dalvik-exchange
    timed "framework resources" bash "$PHONES/suite_deb.sh" "$SUITE_FRAMEWORK" "$1/bookworm" android-framework-res
    "$PYTHON" "$HERE/java8_files.py" "$java_home" "$1/java8-files.jar"
    timed "Java API of onnxruntime" bash "$HERE/ort_java.sh" "$1" "$ORT_LIBRARY" "$SUITE_JAVA_API"
    timed "Kotlin and onnxruntime for an APK" dex_libraries "$1"
}

timed "Debian packages" install_packages
mkdir -p "$(dirname "$TOOLS")"
exec 9> "$TOOLS.lock"
flock 9
if [ ! -e "$TOOLS" ]; then
    rm -rf "$TOOLS.tmp"
    mkdir "$TOOLS.tmp"
    fill "$TOOLS.tmp"
    mv "$TOOLS.tmp" "$TOOLS"
fi
echo "tools: $TOOLS"
