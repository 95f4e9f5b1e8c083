// swift-tools-version:6.0
import PackageDescription

// For `swift test` without Xcode. Xcode builds the app from OmniDraftSample.xcodeproj and does not read this file.
//
// Linux has no SwiftUI, UIKit and BackgroundTasks. There the views, too, are compiled: against Stubs, which have the
// signatures of what the views use. On a Mac the target is the logic of the screen alone.

#if os(Linux)
    let stubs = ["BackgroundTasks", "SwiftUI", "UIKit", "UniformTypeIdentifiers"]
    // A library: the app's own `main` gets another name beside that of the tests.
    let entry = ["-Xfrontend", "-entry-point-function-name", "-Xfrontend", "OmniDraftSample_main"]
    let sample: Target = .target(
        name: "OmniDraftSample",
        dependencies: [.product(name: "OmniDraft", package: "OmniDraft")] + stubs.map { .target(name: $0) },
        path: "Sources", swiftSettings: [.unsafeFlags(entry)])
#else
    let stubs: [String] = []
    let sample: Target = .target(
        name: "OmniDraftSample", dependencies: [.product(name: "OmniDraft", package: "OmniDraft")],
        path: "Sources/Screen")
#endif

let package = Package(
    name: "OmniDraftSample",
    platforms: [.iOS(.v17), .macOS(.v14)],
    dependencies: [.package(name: "OmniDraft", path: "../../..")],
    targets: stubs.map { .target(name: $0, path: "Stubs/\($0)") } + [
        sample, .testTarget(name: "OmniDraftSampleTests", dependencies: ["OmniDraftSample"], path: "Tests"),
    ]
)
