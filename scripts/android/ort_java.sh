#!/usr/bin/env bash
# usage: ort_java.sh FOLDER LIBRARY SUITE
# Builds FOLDER/onnxruntime-java.jar: the Java API of Debian's onnxruntime source and its native part, around the
# libonnxruntime of the Python package. So Kotlin and Python run the same engine.
set -euo pipefail
folder=$(realpath -m "$1") library=$2 suite=$3
source=$folder/ort-source build=$folder/ort-build apt=$folder/.apt
mkdir -p "$apt/lists/partial" "$apt/parts" "$apt/cache/archives/partial" "$source" "$build/include"
mirror=$("$(dirname "$0")/../phones/mirror.sh")
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$apt/parts/suite.list"
options=(-q -o "Dir::Etc::SourceParts=$apt/parts" -o Dir::Etc::SourceList=/dev/null -o "Dir::State::lists=$apt/lists"
    -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" update > /dev/null
cd "$source"
apt-get "${options[@]}" source --tar-only "onnxruntime/$suite" > /dev/null
tar xJf onnxruntime_*.orig.tar.xz --strip-components=1 --wildcards '*/java/src/main/*' '*/include/onnxruntime/core/*'

native=$build/classes/ai/onnxruntime/native/linux-x64
mkdir -p "$native"
printf '#pragma once\n#define ORT_VERSION "1.21.0"\n' > "$build/include/onnxruntime_config.h"
find java/src/main/java java/src/main/jvm -name '*.java' ! -name module-info.java > "$build/sources"
javac -nowarn -Xlint:none --release 8 -h "$build/include" -d "$build/classes" @"$build/sources" 2> "$build/javac.log" ||
    { cat "$build/javac.log" >&2; exit 1; }
cp "$library" "$native/libonnxruntime.so"
ln -s libonnxruntime.so "$native/$(objdump -p "$library" | awk '/SONAME/ { print $2 }')"
java_home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
mapfile -t code < <(find java/src/main/native -name '*.c' ! -name '*Training*')
gcc -O1 -w -shared -fPIC -Wl,--no-undefined -o "$native/libonnxruntime4j_jni.so" "${code[@]}" -I"$build/include" \
    -Ijava/src/main/native -Iinclude -Iinclude/onnxruntime/core/session -Iinclude/onnxruntime/core/providers/cpu \
    -I"$java_home/include" -I"$java_home/include/linux" -L"$native" -l:libonnxruntime.so
find "$native" -type l -delete
jar cf "$folder/onnxruntime-java.jar" -C "$build/classes" ai
rm -rf "$source" "$build" "$apt"
