import Foundation

/// Releases in a folder of this device, such as one that another app keeps in step with a server.
public struct ReleaseFolder: ReleaseSource {
    /// Where the layout of a store begins.
    public let folder: URL

    /// Releases in a folder.
    ///
    /// - Parameter folder: where the layout of a store begins; a URL of a file.
    public init(_ folder: URL) { self.folder = folder }

    public func read(_ path: String, most: Int) async throws -> [UInt8]? {
        try readInFolder(folder.path, path, most: most)
    }
}

/// Releases on a web server. A transfer that brings less than 1,024 bytes a second over 10 seconds is given up.
public struct ReleaseServer: ReleaseSource {
    /// Where the layout of a store begins.
    public let address: URL
    private let web: Web

    /// Releases on a web server.
    ///
    /// - Parameter address: where the layout of a store begins; begins with `https://`.
    /// - Throws: ``OmniDraftError/setting(_:)``: it does not.
    public init(_ address: URL) throws { try self.init(address, Web()) }

    init(_ address: URL, _ web: Web) throws {
        if address.scheme?.lowercased() != "https" {
            throw settingError("address \(address.absoluteString) does not begin with https://", "use HTTPS")
        }
        self.address = address
        self.web = web
    }

    public func read(_ path: String, most: Int) async throws -> [UInt8]? {
        try await readOnServer(address, path, most: most, web)
    }
}
