import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    alias(libs.plugins.android.application)
    alias(libs.plugins.kotlin.android)
}

android {
    namespace = "io.omnidraft.sample"
    compileSdk = libs.versions.compileSdk.get().toInt()

    defaultConfig {
        applicationId = "io.omnidraft.sample"
        minSdk = libs.versions.minSdk.get().toInt()
        targetSdk = libs.versions.targetSdk.get().toInt()
        versionCode = 1
        versionName = version.toString()
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }

    // The logic of the screen, without android.*; the tests need no device.
    sourceSets["main"].kotlin.srcDir("src/main/presenter")

    // A bundle is an archive of stored files, so compression would only cost time.
    androidResources {
        noCompress += "zip"
    }

    testOptions {
        unitTests.all {
            it.useJUnitPlatform()
            // Where scripts/android/bundles.sh ran; else the tests are skipped.
            val bundles = rootDir.resolve("../../.cache/android/bundles")
            if (bundles.exists()) it.systemProperty("omnidraft.bundles", bundles.canonicalPath)
        }
    }
}

kotlin {
    compilerOptions {
        jvmTarget = JvmTarget.JVM_1_8
        allWarningsAsErrors = true
        progressiveMode = true
        freeCompilerArgs.add("-Xsuppress-deprecated-jvm-target-warning")
    }
}

dependencies {
    implementation(project(":omnidraft"))
    implementation(libs.onnxruntime.android)
    testImplementation(libs.onnxruntime)
    testImplementation(libs.junit)
    testRuntimeOnly(libs.junit.launcher)
}
