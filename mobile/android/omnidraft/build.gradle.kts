import org.jetbrains.kotlin.gradle.dsl.JvmTarget

// A plain JVM module: it uses nothing of Android's framework, so its tests run anywhere.
plugins {
    alias(libs.plugins.kotlin.jvm)
    `maven-publish`
}

kotlin {
    explicitApi()
    compilerOptions {
        allWarningsAsErrors = true
        progressiveMode = true
    }
}

tasks.compileKotlin {
    compilerOptions {
        jvmTarget = JvmTarget.JVM_1_8
        // The Java API of level 26; scripts/android/compile.sh also compares with android.jar.
        freeCompilerArgs.addAll("-Xjdk-release=1.8", "-Xsuppress-deprecated-jvm-target-warning")
    }
}

// The tests run on the JVM that builds, and use its web server and its keys.
tasks.compileTestKotlin {
    compilerOptions.jvmTarget = JvmTarget.JVM_17
}

java {
    sourceCompatibility = JavaVersion.VERSION_1_8
    targetCompatibility = JavaVersion.VERSION_1_8
    withSourcesJar()
}

tasks.compileTestJava {
    sourceCompatibility = "17"
    targetCompatibility = "17"
}

dependencies {
    // An app adds onnxruntime-android, or its variant for an NPU, itself; the classes are the same.
    compileOnly(libs.onnxruntime)
    testImplementation(libs.onnxruntime)
    testImplementation(libs.junit)
    testRuntimeOnly(libs.junit.launcher)
}

tasks.test {
    useJUnitPlatform()
    maxHeapSize = "1500m"
    environment("ORT_DISABLE_TELEMETRY", "1")
    systemProperty("omnidraft.root", rootDir.resolve("../..").canonicalPath)
    // Where scripts/android/bundles.sh ran; else the tests that need a bundle are skipped.
    val bundles = rootDir.resolve("../../.cache/android/bundles")
    if (bundles.exists()) systemProperty("omnidraft.bundles", bundles.canonicalPath)
}

publishing {
    publications {
        create<MavenPublication>("library") {
            from(components["java"])
            pom {
                name = "omnidraft"
                description = "Exact speculative decoding across tokenizers: one small drafter for many target models."
                licenses {
                    license {
                        name = "Apache-2.0"
                        url = "https://www.apache.org/licenses/LICENSE-2.0"
                    }
                }
            }
        }
    }
    repositories {
        maven {
            name = "folder"
            url = uri(layout.buildDirectory.dir("repository"))
        }
    }
}
