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
}

rootProject.name = "omnidraft-android"

include(":omnidraft")
// An app that includes this build (README.md) needs the library alone, and no second Android plugin.
if (gradle.parent == null) include(":sample")
