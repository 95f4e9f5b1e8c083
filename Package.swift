// swift-tools-version:6.0
import PackageDescription

// OmniDraft has the runtime and imports no engine. OmniDraftORT runs its graphs with onnxruntime: on Apple's systems with
// Microsoft's package, on Linux, where the tests run, with the system's library.

#if os(Linux)
    let engine: [Target] = [
        .systemLibrary(name: "COnnxRuntime", path: "mobile/ios/Sources/COnnxRuntime", pkgConfig: "libonnxruntime")
    ]
    let engineDependency: Target.Dependency = "COnnxRuntime"
    // Linux has no CryptoKit: the tests check signatures with OpenSSL, and serve HTTPS with it.
    let cryptography: [Target] = [.systemLibrary(name: "COpenSSL", path: "mobile/ios/Tests/COpenSSL")]
    let testDependencies: [Target.Dependency] = ["OmniDraft", "OmniDraftORT", "COpenSSL"]
    let packages: [Package.Dependency] = []
#else
    let engine: [Target] = []
    let cryptography: [Target] = []
    let testDependencies: [Target.Dependency] = ["OmniDraft", "OmniDraftORT"]
    let engineDependency: Target.Dependency = .product(
        name: "onnxruntime", package: "onnxruntime-swift-package-manager")
    let packages: [Package.Dependency] = [
        .package(url: "https://github.com/microsoft/onnxruntime-swift-package-manager", from: "1.20.0")
    ]
#endif

let package = Package(
    name: "OmniDraft",
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [
        .library(name: "OmniDraft", targets: ["OmniDraft", "OmniDraftORT"])
    ],
    dependencies: packages,
    targets: engine + cryptography + [
        .target(name: "OmniDraft", path: "mobile/ios/Sources/OmniDraft"),
        // The manifest is here, for the whole package: SwiftPM's code for resources needs the name Bundle for itself.
        .target(
            name: "OmniDraftORT", dependencies: ["OmniDraft", engineDependency], path: "mobile/ios/Sources/OmniDraftORT",
            resources: [.copy("PrivacyInfo.xcprivacy")]),
        .testTarget(
            name: "OmniDraftTests", dependencies: testDependencies, path: "mobile/ios/Tests/OmniDraftTests"
        ),
    ]
)
