import Foundation
import OmniDraft

private let mostName = 40

/// A bundle that the user chose.
struct Choice: Sendable {
    /// Where a bundle is.
    enum Place: Sendable {
        /// A directory, such as one inside the app's own bundle; it is opened where it is.
        case directory(URL)
        /// An archive, which is unpacked first.
        case archive(BundleSource)
    }

    /// Names its files in the app's storage; from ``safeName(_:)``.
    let name: String
    let place: Place
    /// Called once, when the archive was read or refused.
    var done: @Sendable () -> Void = {}
}

extension Choice {
    /// A file that the user chose.
    static func file(_ url: URL, done: @escaping @Sendable () -> Void = {}) -> Choice {
        Choice(name: safeName(url.lastPathComponent), place: .archive(.archive(url)), done: done)
    }

    /// An archive on a web server, from what the user typed; the library refuses what is wrong. Nil for no address.
    static func download(_ address: String, bytes: String, sha256: String) -> Choice? {
        guard let url = URL(string: address), url.scheme != nil else { return nil }
        let source = BundleSource.download(url, bytes: Int(bytes) ?? 0, sha256: sha256.lowercased())
        return Choice(name: safeName(url.lastPathComponent), place: .archive(source))
    }

    /// The bundles in a folder of the app's own bundle: directories with a manifest, and archives.
    static func inApp(_ folder: URL) -> [Choice] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: folder.path)  // an app may have no folder
        return (names ?? []).sorted().compactMap { name in
            let url = folder.appendingPathComponent(name)
            if name.hasSuffix(".zip") { return .file(url) }
            let manifest = url.appendingPathComponent("manifest.json").path
            guard FileManager.default.fileExists(atPath: manifest) else { return nil }
            return Choice(name: safeName(name), place: .directory(url))
        }
    }
}

/// The letters, digits, `-` and `_` of a name from outside, at most 40; `bundle` where nothing is left.
func safeName(_ text: String) -> String {
    let name = text.hasSuffix(".zip") ? text.dropLast(4) : text[...]
    let kept = name.unicodeScalars.filter { scalar in
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "-", "_": return true
        default: return false
        }
    }
    return kept.isEmpty ? "bundle" : String(String.UnicodeScalarView(kept.prefix(mostName)))
}
