// Where the files of a bundle are: in its directory, in a shared drafter beside it, or left out
// (spec/16-archive.md, "Opening a bundle that lacks files").

struct FilePlaces: Sendable, Equatable {
    /// The bundle's directory.
    let path: String
    /// The directory of the shared drafter; nil where the bundle holds its own.
    var shared: String?
    /// The index of the archive that the bundle was unpacked from; nil for a whole bundle.
    var index: PackIndex?

    /// The path at which a file of the bundle is, or would be.
    func place(_ name: String) -> String {
        if let shared, begins(name + "/", with: drafterPrefix) {
            return joined(shared, without(drafterPrefix, of: name))
        }
        return joined(path, name)
    }

    /// The path of a file of the bundle.
    ///
    /// - Throws: ``OmniDraftError/bundle(_:)`` `left_out`.
    func file(_ name: String) throws -> String {
        try refuseLeftOut(name)
        return place(name)
    }

    /// Whether a file was left out when the bundle was packed for a device.
    func isLeftOut(_ name: String) -> Bool { index?.leftOut.has(name) ?? false }

    /// Refuse to open a file that was left out.
    ///
    /// - Throws: ``OmniDraftError/bundle(_:)`` `left_out`.
    func refuseLeftOut(_ name: String) throws {
        guard let index, let devices = index.leftOut[name] else { return }
        let remedy: String
        if devices.contains(where: { isSame($0, index.device) }) {
            remedy = "pack the whole bundle for \(index.device) again, without --no-learning"
        } else if devices.isEmpty {
            remedy = "use the whole bundle, which was not packed"
        } else {
            remedy = "unpack an archive that was packed with --for \(devices.joined(separator: " or "))"
        }
        let message = "\(quoted(.string(name))) was left out when \(path) was packed for \(index.device)"
        throw OmniDraftError.bundle(Refusal(fault: "left_out", message: message, remedy: remedy))
    }

    /// The paths on the way to a file that must not be links, the file first.
    func links(_ name: String) -> [String] {
        let isShared = shared != nil && begins(name, with: drafterPrefix)
        let root = isShared ? shared ?? path : path
        let parts = partsOf(path: isShared ? without(drafterPrefix, of: name) : name)
        let below = stride(from: parts.count, to: 0, by: -1).map { joined(root, parts[..<$0].joined(separator: "/")) }
        return isShared ? below + [root, split(root).directory] : below
    }

    /// What to do where a file is absent.
    func remedyFor(_ name: String) -> String {
        guard let shared, begins(name, with: drafterPrefix) else {
            return "copy the whole bundle or run `omnidraft export` again"
        }
        let (directory, address) = split(shared)
        return "the bundle shares its drafter: copy \(address) into \(directory)"
    }
}

/// Where the files of a bundle are.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `index` or `version`.
func findPlaces(_ path: String, manifest: [UInt8], files: ByName<FileRecord>) throws -> FilePlaces {
    let index = try indexOf(path, manifest, files)
    for name in index?.leftOut.names ?? [] where exists(joined(path, name)) || isLink(joined(path, name)) {
        let why = "it leaves out \(quoted(.string(name))), which is in the directory"
        throw refused(joined(path, indexName), why, "index")
    }
    let hasDrafter = files.names.contains { begins($0, with: drafterPrefix) }
    return FilePlaces(path: path, shared: hasDrafter ? try sharedDrafter(path, files) : nil, index: index)
}

private func sharedDrafter(_ path: String, _ files: ByName<FileRecord>) throws -> String? {
    let own = joined(path, "drafter")
    if exists(own) || isLink(own) { return nil }
    return try onFileError(of: try sharedPlace(path, drafterAddress(files))) {
        bundleError("missing", "\(path) cannot be read (\($0))", "copy the whole bundle again")
    }
}

private func indexOf(_ path: String, _ manifest: [UInt8], _ files: ByName<FileRecord>) throws -> PackIndex? {
    let file = joined(path, indexName)
    do {
        let data = try readFile(file, most: maxIndexBytes)
        return try readIndex(data, manifest: hexOf(sha256(manifest)), files: files.names)
    } catch let error as FileError {
        if error.isAbsent { return nil }
        throw refused(file, reason(error), "index")
    } catch let error as ValueError {
        throw refused(file, error.message, error.fault.isEmpty ? "index" : error.fault)
    }
}

private func refused(_ file: String, _ why: String, _ fault: String) -> OmniDraftError {
    .bundle(Refusal(fault: fault, message: "\(file) is refused: \(why)", remedy: "unpack the archive again"))
}
