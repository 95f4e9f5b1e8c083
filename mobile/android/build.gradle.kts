import org.jetbrains.kotlin.gradle.dsl.JvmTarget
import org.jetbrains.kotlin.gradle.dsl.KotlinJvmProjectExtension
import org.jetbrains.kotlin.gradle.dsl.KotlinVersion
import org.jetbrains.kotlin.gradle.tasks.KotlinCompile

plugins {
    alias(libs.plugins.kotlin.jvm) apply false
}

// Read here: inside of subprojects the names mean those of the subproject.
val catalogue = libs

// Plain JVM modules: they use nothing of Android's framework, so their tests run anywhere.
subprojects {
    group = "io.omnidraft"
    version = providers.gradleProperty("omnidraft.version").get()

    apply(plugin = "org.jetbrains.kotlin.jvm")
    apply(plugin = "maven-publish")
    apply(plugin = "signing")

    configure<KotlinJvmProjectExtension> {
        explicitApi()
        coreLibrariesVersion = catalogue.versions.kotlinStdlib.get()
        compilerOptions {
            languageVersion = KotlinVersion.fromVersion(catalogue.versions.kotlinLanguage.get())
            apiVersion = languageVersion
            // An app that includes this build may have another Kotlin with another warning.
            allWarningsAsErrors = providers.environmentVariable("CI").isPresent
        }
    }

    tasks.named<KotlinCompile>("compileKotlin") {
        compilerOptions {
            jvmTarget = JvmTarget.JVM_1_8
            // The Java API of level 26; scripts/android/compile.sh also compares with android.jar.
            freeCompilerArgs.addAll("-Xjdk-release=1.8", "-Xsuppress-deprecated-jvm-target-warning")
        }
    }

    // The tests run on the JVM that builds, and use its web server and its keys.
    tasks.named<KotlinCompile>("compileTestKotlin") {
        compilerOptions.jvmTarget = JvmTarget.JVM_17
    }

    configure<JavaPluginExtension> {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
        withSourcesJar()
        withJavadocJar() // empty, and Maven Central asks for one
    }

    tasks.named<JavaCompile>("compileTestJava") {
        sourceCompatibility = "17"
        targetCompatibility = "17"
    }

    dependencies {
        "testImplementation"(catalogue.onnxruntime)
        "testImplementation"(catalogue.junit)
        "testRuntimeOnly"(catalogue.junit.launcher)
    }

    tasks.named<Test>("test") {
        useJUnitPlatform()
        maxHeapSize = "1500m"
        environment("ORT_DISABLE_TELEMETRY", "1")
        systemProperty("omnidraft.root", rootDir.resolve("../..").canonicalPath)
        // Where scripts/android/bundles.sh ran; else the tests that need a bundle are skipped.
        val bundles = rootDir.resolve("../../.cache/android/bundles")
        if (bundles.exists()) systemProperty("omnidraft.bundles", bundles.canonicalPath)
    }

    val address = providers.gradleProperty("omnidraft.url").get()
    configure<PublishingExtension> {
        publications.create<MavenPublication>("library") {
            from(components["java"])
            pom {
                name = project.name
                description = provider { project.description }
                url = address
                licenses {
                    license {
                        name = "Apache-2.0"
                        url = "https://www.apache.org/licenses/LICENSE-2.0"
                    }
                }
                developers {
                    developer {
                        name = "The omnidraft maintainers"
                        url = address
                    }
                }
                scm {
                    url = address
                    connection = "scm:git:$address.git"
                }
            }
        }
        // `publishAllPublicationsToFolderRepository` fills the folder of build/repository.
        repositories.maven {
            name = "folder"
            url = uri(rootProject.layout.buildDirectory.dir("repository"))
        }
    }

    // Maven Central takes signed files alone: ORG_GRADLE_PROJECT_signingKey and ...Password hold the key.
    configure<SigningExtension> {
        val key = providers.gradleProperty("signingKey").orNull ?: return@configure
        useInMemoryPgpKeys(key, providers.gradleProperty("signingPassword").get())
        sign(extensions.getByType<PublishingExtension>().publications["library"])
    }
}
