// swift-tools-version:6.0
import Foundation
import PackageDescription

// OmniDraft has the runtime and imports no engine. OmniDraftORT runs its graphs with onnxruntime: on Apple's systems with
// Microsoft's archive, on Linux, where the tests run, with the system's library.

#if os(Linux)
    let engine: [Target] = [
        .systemLibrary(name: "COnnxRuntime", path: "mobile/ios/Sources/COnnxRuntime", pkgConfig: "libonnxruntime")
    ]
    // Linux has no CryptoKit: the tests check signatures with OpenSSL.
    let cryptography: [Target] = [.systemLibrary(name: "COpenSSL", path: "mobile/ios/Tests/COpenSSL")]
    let testDependencies: [Target.Dependency] = ["OmniDraft", "OmniDraftORT", "COpenSSL"]
#else
    // The archive of the release that Android has. The App Store refuses the Info.plist of its framework: scripts/ios/engine.py
    // makes a copy with all keys, which is taken where it is.
    let completed = "mobile/ios/Engine/onnxruntime.xcframework"
    let hasCompleted = FileManager.default.fileExists(atPath: "\(Context.packageDirectory)/\(completed)")
    // The framework has no module map, so `import onnxruntime` does not compile. A target of C makes the module. The
    // framework is static and holds a provider for CoreML, which is linked with it; the library does not use it.
    let engine: [Target] = [
        hasCompleted
            ? .binaryTarget(name: "onnxruntime", path: completed)
            : .binaryTarget(
                name: "onnxruntime", url: "https://download.onnxruntime.ai/pod-archive-onnxruntime-c-1.27.0.zip",
                checksum: "8c74edd600eafc3055de9e8f7a9602afee44ed516913cb5e132bca02cc34622c"),
        .target(
            name: "COnnxRuntime", dependencies: ["onnxruntime"], path: "mobile/ios/Sources/COnnxRuntimeApple",
            linkerSettings: [.linkedLibrary("c++"), .linkedFramework("CoreML"), .linkedFramework("Foundation")]),
    ]
    let cryptography: [Target] = []
    let testDependencies: [Target.Dependency] = ["OmniDraft", "OmniDraftORT"]
#endif

// With OMNIDRAFT_OPTIMIZED=1 in the environment of the build, a debug build of an app has this library at the speed of a
// release build. SwiftPM refuses the flags in a package that is taken by its version.
let isOptimized = Context.environment["OMNIDRAFT_OPTIMIZED"] == "1"
let debug = BuildSettingCondition.when(configuration: .debug)
let swiftSettings: [SwiftSetting] = isOptimized ? [.unsafeFlags(["-O"], debug)] : []
let cSettings: [CSetting] = isOptimized ? [.unsafeFlags(["-O2"], debug)] : []

let package = Package(
    name: "OmniDraft",
    platforms: [.iOS("15.1"), .macOS(.v14)],  // those of the engine
    products: [
        .library(name: "OmniDraft", targets: ["OmniDraft", "OmniDraftORT"])
    ],
    targets: engine + cryptography + [
        // Loops over whole rows, which take Swift much longer without optimization.
        .target(name: "CRowMath", path: "mobile/ios/Sources/CRowMath", cSettings: cSettings),
        .target(
            name: "OmniDraft", dependencies: ["CRowMath"], path: "mobile/ios/Sources/OmniDraft",
            swiftSettings: swiftSettings),
        // The manifest is here, for the whole package: SwiftPM's code for resources needs the name Bundle for itself.
        .target(
            name: "OmniDraftORT", dependencies: ["OmniDraft", "COnnxRuntime"], path: "mobile/ios/Sources/OmniDraftORT",
            resources: [.copy("PrivacyInfo.xcprivacy")], swiftSettings: swiftSettings),
        .testTarget(
            name: "OmniDraftTests", dependencies: testDependencies, path: "mobile/ios/Tests/OmniDraftTests"
        ),
    ]
)
