plugins {
    alias(libs.plugins.android.application)
}

android {
    namespace = "io.omnidraft.sample"
    compileSdk = libs.versions.compileSdk.get().toInt()

    defaultConfig {
        applicationId = "io.omnidraft.sample"
        minSdk = libs.versions.minSdk.get().toInt()
        targetSdk = libs.versions.targetSdk.get().toInt()
        versionCode = 1
        versionName = "1.0"
        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"
        // Phones, and the emulator: the engine comes once for each.
        ndk { abiFilters += listOf("arm64-v8a", "x86_64") }
    }

    // The logic of the screen, without android.*; the tests need no device.
    sourceSets.named("main") { kotlin.directories += "src/main/presenter" }

    // A bundle is an archive of stored files, so compression would only cost time.
    androidResources { noCompress += "zip" }

    testOptions {
        unitTests.all {
            it.useJUnitPlatform()
            // Where scripts/android/bundles.sh ran; else the tests are skipped.
            val bundles = rootDir.resolve("../../../.cache/android/bundles")
            if (bundles.exists()) it.systemProperty("omnidraft.bundles", bundles.canonicalPath)
        }
    }
}

kotlin {
    compilerOptions.allWarningsAsErrors = providers.environmentVariable("CI").isPresent
}

dependencies {
    implementation("io.omnidraft:omnidraft:0.1.0") // of the included build
    implementation(libs.onnxruntime.android)
    testImplementation(libs.onnxruntime)
    testImplementation(libs.junit)
    testRuntimeOnly(libs.junit.launcher)
    androidTestImplementation(libs.androidx.test.runner)
}
