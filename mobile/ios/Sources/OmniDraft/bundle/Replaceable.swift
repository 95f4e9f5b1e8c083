// Whether a bundle may be replaced: whatever else is in its directory would be lost (spec/16-archive.md).

private let besideNames = [manifestName, signatureName, indexName]  // not listed in the manifest
private let leftBySystems = [".DS_Store", "Thumbs.db", "desktop.ini"]  // by file managers, in any directory

/// Why a path that exists may not be replaced by a bundle, and the remedy; nil where it may.
///
/// An empty directory may be replaced, and a bundle that holds nothing but its own files. Its manifest tells which these
/// are, so that a directory with a damaged manifest stays, too.
func refusalToReplace(_ place: String) -> (message: String, remedy: String)? {
    if !isLink(place) && isDirectory(place) && namesIn(place).isEmpty { return nil }
    guard let files = filesOf(place) else {
        return ("\(place) is not a bundle, so it is not overwritten", "choose another place, or delete it yourself")
    }
    let foreign = unlisted(place, files).filter { name in
        !leftBySystems.contains { isSame($0, split(name).name) }
    }
    guard let first = foreign.first else { return nil }
    let more = foreign.count > 1 ? " and \(counted(foreign.count - 1, "other file"))" : ""
    let what = "\(quoted(.string(first)))\(more), which the bundle does not list"
    return ("\(place) holds \(what), so it is not overwritten", "move what is yours away, or choose another place")
}

/// The names that the files of a bundle have; nil for what is not a bundle.
private func filesOf(_ place: String) -> [String]? {
    let manifest = joined(place, manifestName)
    if isLink(place) || isLink(manifest) { return nil }
    guard let data = try? readFile(manifest, most: BundleLimits.maxManifestBytes), let value = try? parseJson(data),
        case .object(let object) = value, object["format"] == .string(bundleFormat),
        case .object(let files)? = object["files"]
    else { return nil }
    return files.members.map(\.name)
}

/// Paths of the files and links in the directory of a bundle that its manifest does not list, ascending.
func unlisted(_ place: String, _ files: [String]) -> [String] {
    let known = Set((files + besideNames).map { Array($0.utf8) })
    return filesBelow(place, "").filter { !known.contains(Array($0.utf8)) }.sorted(by: precedes)
}

private func filesBelow(_ directory: String, _ prefix: String) -> [String] {
    namesIn(directory).flatMap { name -> [String] in
        let path = joined(directory, name)
        return isDirectory(path) && !isLink(path) ? filesBelow(path, "\(prefix)\(name)/") : [prefix + name]
    }
}
