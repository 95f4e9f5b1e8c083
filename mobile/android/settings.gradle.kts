// The libraries alone, plain JVM modules: no Android SDK is needed. The sample is a build of its own, which includes this one.

pluginManagement {
    repositories {
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositoriesMode = RepositoriesMode.FAIL_ON_PROJECT_REPOS
    repositories {
        mavenCentral()
    }
}

rootProject.name = "omnidraft-android"

include(":omnidraft", ":omnidraft-coroutines")
