// swift-tools-version:6.0
import PackageDescription

// OmniDraft has the runtime and imports no engine. OmniDraftORT runs its graphs with onnxruntime: on Apple's systems with
// Microsoft's package, on Linux, where the tests run, with the system's library.

#if os(Linux)
    let engine: [Target] = [
        .systemLibrary(name: "COnnxRuntime", path: "mobile/ios/Sources/COnnxRuntime", pkgConfig: "libonnxruntime")
    ]
    // Linux has no CryptoKit: the tests check signatures with OpenSSL, and serve HTTPS with it.
    let cryptography: [Target] = [.systemLibrary(name: "COpenSSL", path: "mobile/ios/Tests/COpenSSL")]
    let testDependencies: [Target.Dependency] = ["OmniDraft", "OmniDraftORT", "COpenSSL"]
    let packages: [Package.Dependency] = []
#else
    // Microsoft's framework has no module map, so `import onnxruntime` does not compile. A target of C makes the module. The
    // framework is static and holds a provider for CoreML, which is linked with it; the library does not use it.
    let engine: [Target] = [
        .target(
            name: "COnnxRuntime",
            dependencies: [.product(name: "onnxruntime", package: "onnxruntime-swift-package-manager")],
            path: "mobile/ios/Sources/COnnxRuntimeApple",
            linkerSettings: [.linkedLibrary("c++"), .linkedFramework("CoreML"), .linkedFramework("Foundation")])
    ]
    let cryptography: [Target] = []
    let testDependencies: [Target.Dependency] = ["OmniDraft", "OmniDraftORT"]
    let packages: [Package.Dependency] = [
        .package(url: "https://github.com/microsoft/onnxruntime-swift-package-manager", from: "1.24.2")
    ]
#endif

let package = Package(
    name: "OmniDraft",
    platforms: [.iOS(.v15), .macOS(.v14)],  // those of Microsoft's package
    products: [
        .library(name: "OmniDraft", targets: ["OmniDraft", "OmniDraftORT"])
    ],
    dependencies: packages,
    targets: engine + cryptography + [
        .target(name: "OmniDraft", path: "mobile/ios/Sources/OmniDraft"),
        // The manifest is here, for the whole package: SwiftPM's code for resources needs the name Bundle for itself.
        .target(
            name: "OmniDraftORT", dependencies: ["OmniDraft", "COnnxRuntime"], path: "mobile/ios/Sources/OmniDraftORT",
            resources: [.copy("PrivacyInfo.xcprivacy")]),
        .testTarget(
            name: "OmniDraftTests", dependencies: testDependencies, path: "mobile/ios/Tests/OmniDraftTests"
        ),
    ]
)
