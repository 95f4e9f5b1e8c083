import org.jetbrains.kotlin.gradle.dsl.JvmTarget

// A plain JVM module: it uses nothing of Android's framework, so its tests run anywhere.
plugins {
    alias(libs.plugins.kotlin.jvm)
    `maven-publish`
}

kotlin {
    explicitApi()
    compilerOptions {
        jvmTarget = JvmTarget.JVM_1_8
        allWarningsAsErrors = true
        progressiveMode = true
        // The Java API of level 26; scripts/android/compile.sh also compares with android.jar.
        freeCompilerArgs.addAll("-Xjdk-release=1.8", "-Xsuppress-deprecated-jvm-target-warning")
    }
}

java {
    sourceCompatibility = JavaVersion.VERSION_1_8
    targetCompatibility = JavaVersion.VERSION_1_8
    withSourcesJar()
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
}

publishing {
    publications {
        create<MavenPublication>("library") {
            from(components["java"])
            pom {
                name = "omnidraft"
                description = "One small drafter that speeds up any target language model, exactly."
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
