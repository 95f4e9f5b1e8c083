pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositoriesMode = RepositoriesMode.FAIL_ON_PROJECT_REPOS
    repositories {
        google()
        mavenCentral()
    }
    versionCatalogs {
        create("libs") { from(files("../gradle/libs.versions.toml")) }
    }
}

rootProject.name = "omnidraft-sample"

// The library from its sources, as in an app beside a checkout (../README.md).
includeBuild("..")

// The sample runs on the CPU; this builds the module for QNN with the same plugin.
include(":omnidraft-qnn")
project(":omnidraft-qnn").projectDir = file("../omnidraft-qnn")
