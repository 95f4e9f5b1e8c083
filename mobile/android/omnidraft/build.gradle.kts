description = "One small drafter that speeds up any target language model, exactly."

dependencies {
    // An app adds onnxruntime-android, or its variant for an NPU, itself; the classes are the same.
    "compileOnly"(libs.onnxruntime)
}
