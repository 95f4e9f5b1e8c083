// What an app needs for ExecutionProvider.QNN: experimental, never run on a phone (docs/npu.md). It takes the Android plugin
// of the build that includes it.
plugins {
    id("com.android.library")
}

android {
    namespace = "io.omnidraft.qnn"
    compileSdk = 36
    defaultConfig { minSdk = 26 }
}

dependencies {
    api("com.microsoft.onnxruntime:onnxruntime-android-qnn:1.27.0")
}
