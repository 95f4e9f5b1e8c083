description = "Exact speculative decoding across tokenizers: one small drafter for many target models."

dependencies {
    // An app adds onnxruntime-android, or its variant for an NPU, itself; the classes are the same.
    "compileOnly"(libs.onnxruntime)
}
