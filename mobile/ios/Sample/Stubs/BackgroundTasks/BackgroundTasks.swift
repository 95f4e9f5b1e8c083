@_exported import Foundation

// Work that the system starts when the device is idle.

open class BGTask: NSObject {
    open var identifier: String { fatalError("a signature alone") }
    open var expirationHandler: (() -> Void)? {
        get { fatalError("a signature alone") }
        set { fatalError("a signature alone") }
    }
    open func setTaskCompleted(success: Bool) { fatalError("a signature alone") }
}

open class BGTaskRequest: NSObject {
    open var identifier: String { fatalError("a signature alone") }
    open var earliestBeginDate: Date? {
        get { fatalError("a signature alone") }
        set { fatalError("a signature alone") }
    }
}

open class BGProcessingTaskRequest: BGTaskRequest {
    public init(identifier: String) { fatalError("a signature alone") }
    open var requiresNetworkConnectivity: Bool {
        get { fatalError("a signature alone") }
        set { fatalError("a signature alone") }
    }
    open var requiresExternalPower: Bool {
        get { fatalError("a signature alone") }
        set { fatalError("a signature alone") }
    }
}

open class BGTaskScheduler: NSObject, @unchecked Sendable {
    open class var shared: BGTaskScheduler { fatalError("a signature alone") }
    @discardableResult
    open func register(
        forTaskWithIdentifier identifier: String, using queue: DispatchQueue?,
        launchHandler: @escaping (BGTask) -> Void
    ) -> Bool { fatalError("a signature alone") }
    open func submit(_ taskRequest: BGTaskRequest) throws { fatalError("a signature alone") }
}
