@_exported import Foundation

// The application, and what Foundation on Linux lacks.

@MainActor @preconcurrency
open class UIApplication: NSObject {
    open class var shared: UIApplication { fatalError("a signature alone") }
    public nonisolated class var didReceiveMemoryWarningNotification: NSNotification.Name {
        NSNotification.Name("UIApplicationDidReceiveMemoryWarningNotification")
    }
    open func beginBackgroundTask(
        withName taskName: String?, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier { fatalError("a signature alone") }
    open func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) { fatalError("a signature alone") }
}

public struct UIBackgroundTaskIdentifier: Hashable, RawRepresentable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let invalid = UIBackgroundTaskIdentifier(rawValue: 0)
}

extension ProcessInfo {
    public enum ThermalState: Int, Sendable {
        case nominal = 0
        case fair = 1
        case serious = 2
        case critical = 3
    }

    public var thermalState: ThermalState { .nominal }
    public class var thermalStateDidChangeNotification: NSNotification.Name {
        NSNotification.Name("NSProcessInfoThermalStateDidChangeNotification")
    }
}

extension URL {
    public func startAccessingSecurityScopedResource() -> Bool { fatalError("a signature alone") }
    public func stopAccessingSecurityScopedResource() { fatalError("a signature alone") }
}
