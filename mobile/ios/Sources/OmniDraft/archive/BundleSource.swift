import Foundation

/// Where an archive of a bundle comes from; `omnidraft pack` makes archives.
public enum BundleSource: Sendable {
    /// An archive in the file system, such as a file in the app's own bundle; it stays.
    case archive(URL)
    /// An archive on a web server. A download that ended early goes on where it ended when it is asked for again.
    ///
    /// The address begins with `https://`. `bytes` is the size of the archive; not one byte more is read. `sha256` is
    /// its digest, 64 digits `0-9a-f`; an app gets both from another source than the server.
    case download(URL, bytes: Int, sha256: String)
}

struct DownloadSource: Sendable {
    let address: URL
    let bytes: Int
    let sha256: String

    /// - Throws: ``OmniDraftError/setting(_:)``: a size or a digest that no archive has.
    init(_ address: URL, bytes: Int, sha256: String) throws {
        if bytes < 1 || bytes > mostExact { throw settingError("bytes \(bytes) is no size of an archive") }
        guard let digits = try? hexadecimal(.string(sha256), 64) else {
            throw settingError("sha256 \(sha256) does not have 64 digits 0-9a-f")
        }
        self.address = address
        self.bytes = bytes
        self.sha256 = digits
    }

    /// - Throws: ``OmniDraftError/setting(_:)``: the address is not one of HTTPS.
    func checkSecure() throws {
        if address.scheme?.lowercased() == "https" { return }
        throw settingError("address \(address.absoluteString) does not begin with https://", "use HTTPS")
    }
}
