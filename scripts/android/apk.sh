#!/usr/bin/env bash
# Builds and signs the sample's APK, with a starter bundle inside, and prints its size and its number of methods.
#
# The native library of onnxruntime is not inside, since Debian has none for phones: the APK proves that the code and
# the resources fit a phone. Gradle makes the one to install.
. "$(dirname "$0")/common.sh"
need_tools

sample=$ANDROID/sample/src/main
build=$OUT/apk
rm -rf "$build"
mkdir -p "$build"/{generated,stubs,classes,assets}

# The namespace is in the Gradle file; aapt2 wants it in the manifest.
namespace=$(sed -n 's/^ *namespace = "\(.*\)"/\1/p' "$ANDROID/sample/build.gradle.kts")
sed "s#<manifest #<manifest package=\"$namespace\" #" "$sample/AndroidManifest.xml" > "$build/AndroidManifest.xml"
cp "$OUT/bundles/starter-a.zip" "$build/assets/starter-a.zip"
aapt2 compile --dir "$sample/res" -o "$build/resources.zip"
aapt2 link -I "$FRAMEWORK" --manifest "$build/AndroidManifest.xml" --java "$build/generated" -A "$build/assets" -0 .zip \
    --min-sdk-version "$MIN_SDK" --target-sdk-version "$TARGET_SDK" --version-code 1 \
    --version-name "$(sed -n 's/^omnidraft.version=//p' "$ANDROID/gradle.properties")" -o "$build/app.unsigned" "$build/resources.zip"

javac -nowarn -Xlint:none --release 8 -d "$build/stubs" $(find "$HERE/stubs" -name '*.java') 2> "$build/javac.log" ||
    { cat "$build/javac.log"; exit 1; }
# omnidraft-qnn is in no APK here, since its engine is not there: only its code is compiled.
kotlinc "${PHONE[@]}" -Werror -cp "$STDLIB:$ANDROID_JAR" -d "$build/qnn" "$ANDROID/omnidraft-qnn/src/main/kotlin"
kotlinc "${PHONE[@]}" -module-name sample -Werror -progressive \
    -cp "$STDLIB:$build/stubs:$JAVA8_FILES:$ANDROID_JAR:$OUT/main:$ORT_JAR" -d "$build/classes" \
    "$sample/kotlin" "$sample/presenter" "$build/generated"
javac -nowarn -Xlint:none --release 8 -cp "$ANDROID_JAR" -d "$build/classes" $(find "$build/generated" -name '*.java') \
    2> "$build/javac.log" || { cat "$build/javac.log"; exit 1; }

jar cf "$build/app.jar" -C "$build/classes" .
dx() {
    java -Xmx1500m -cp "$DX_JAR" "$@"
}
for part in app omnidraft; do
    [ "$part" = app ] && jar=$build/app.jar || jar=$OUT/omnidraft.jar
    dx com.android.dx.command.Main --dex "--min-sdk-version=$MIN_SDK" --output="$build/$part.dex" "$jar"
done
cp "$TOOLS"/{stdlib,ort}.dex "$build/"
dx com.android.dx.merge.DexMerger "$build/classes.dex" "$build"/{app,omnidraft,stdlib,ort}.dex > /dev/null

(cd "$build" && zip -q app.unsigned classes.dex)
zipalign -p -f 4 "$build/app.unsigned" "$build/app.aligned"
keytool -genkeypair -keystore "$build/debug.p12" -storepass android -alias debug -keyalg RSA -keysize 2048 -validity 9999 \
    -dname CN=debug 2> /dev/null
apksigner sign --ks "$build/debug.p12" --ks-pass pass:android --out "$OUT/sample.apk" "$build/app.aligned"
apksigner verify "$OUT/sample.apk"
"$PYTHON" "$HERE/apk_pages.py" "$OUT/sample.apk"
aapt2 dump badging "$OUT/sample.apk" | sed -n 1p
"$PYTHON" "$HERE/apk_sizes.py" "$OUT/sample.apk" "$build" app omnidraft stdlib ort
