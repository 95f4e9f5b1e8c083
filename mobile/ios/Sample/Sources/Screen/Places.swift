import Foundation

#if os(iOS)
    import os
#endif

/// A file with the name of the bundle that learns, so that it learns in idle time and after the app was ended.
struct LearnerFile: Sendable {
    let url: URL

    /// The name; nil where no bundle learns.
    var name: String? {
        guard let data = try? Data(contentsOf: url) else { return nil }  // the file is absent or cannot be read
        return safeName(String(decoding: data, as: UTF8.self))
    }

    /// - Parameter name: of the bundle that learns; nil for none.
    func write(_ name: String?) throws {
        if let name {
            try Data(name.utf8).write(to: url, options: .atomic)
        } else if FileManager.default.fileExists(atPath: url.path) {
            try FileManager.default.removeItem(at: url)
        }
    }
}

/// A directory in the app's storage.
///
/// - Parameters:
///   - url: the directory; one that exists is kept.
///   - backup: whether backups have it. Traces hold the user's text, and bundles can be unpacked again.
func makeDirectory(_ url: URL, backup: Bool) throws {
    // Each directory is the user's alone (spec/08-phones.md, Names and places).
    let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o700]
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true, attributes: attributes)
    #if canImport(Darwin)
        var place = url
        var values = URLResourceValues()
        values.isExcludedFromBackup = !backup
        try place.setResourceValues(values)
    #endif
}

/// Bytes that the app may still use; nil where the system does not say.
func freeMemory() -> Int? {
    #if os(iOS)
        let bytes = os_proc_available_memory()
        return bytes > 0 ? bytes : nil
    #else
        return nil
    #endif
}
