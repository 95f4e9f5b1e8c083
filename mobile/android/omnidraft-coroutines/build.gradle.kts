description = "Suspending functions and flows for omnidraft."

dependencies {
    "api"(project(":omnidraft"))
    "api"(libs.coroutines)
}
