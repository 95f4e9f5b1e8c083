# Places and settings that the scripts of this folder share; they source it.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../phones/common.sh"

ANDROID=$ROOT/mobile/android
OUT=$ROOT/.cache/android           # what is made from the checkout
KOTLIN_VERSION=2.2.20-Beta2        # of the stdlib in the wheel of requirements.txt
SUITE_JAVA_API=trixie              # Debian suite with the source of onnxruntime's Java API
SUITE_ANDROID_JAR=bullseye         # with android.jar of level 23, and dx
SUITE_FRAMEWORK=bookworm           # with the framework's resources, for aapt2
MIN_SDK=26
TARGET_SDK=36
JAVA_SHARE=/usr/share/java         # where Debian has the jars of JUnit

# The tools depend on the scripts that install them and on the native library, and on nothing else.
STAMP=$(cat "$HERE"/{common,setup,ort_java}.sh "$PHONES"/{mirror,suite_deb}.sh "$HERE"/{java8_files.py,requirements.txt} \
    <(basename "$ORT_LIBRARY") | sha256sum | cut -c1-16)
TOOLS=${OMNIDRAFT_ANDROID_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/omnidraft/android}/$STAMP
KOTLIN=$TOOLS/kotlin
STDLIB=$KOTLIN/kotlin-stdlib-$KOTLIN_VERSION.jar
ORT_JAR=$TOOLS/onnxruntime-java.jar
ANDROID_JAR=$TOOLS/bullseye/usr/share/java/com.android.android-23.jar
DX_JAR=$TOOLS/bullseye/usr/share/java/com.android.dx-10.0.0.jar
FRAMEWORK=$TOOLS/bookworm/usr/share/android-framework-res/framework-res.apk
JAVA8_FILES=$TOOLS/java8-files.jar # java.nio.file, as it is in Java 8 and in level 26
JUNIT=$JAVA_SHARE/junit-jupiter-api.jar:$JAVA_SHARE/junit-jupiter-params.jar:$JAVA_SHARE/apiguardian-api.jar
JUNIT=$JUNIT:$JAVA_SHARE/opentest4j.jar:$JAVA_SHARE/junit-platform-commons.jar

# What a phone takes: Kotlin's newer ways to compile lambdas and strings need classes that it has not.
PHONE=(-no-jdk -jvm-target 1.8 -Xlambdas=class -Xsam-conversions=class -Xstring-concat=inline -jvm-default=disable)

# A script that is run alone after the tools changed.
need_tools() {
    [ -d "$TOOLS" ] || fail "the tools are not installed; run scripts/android/setup.sh"
}

# kotlinc ARGUMENTS: the compiler, without its own standard library on the class path.
kotlinc() {
    java -Xmx2g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$KOTLIN/*" \
        org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -no-stdlib -no-reflect "$@"
}
