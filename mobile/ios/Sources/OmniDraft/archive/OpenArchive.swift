// Open an archive: headers, manifest, signature where a key is given, and index (spec/16-archive.md).

/// Entries that are not in the manifest, in order, with their bytes at most.
private let mostBeside = ByName([
    (manifestName, BundleLimits.maxManifestBytes), (signatureName, signatureBytes + 1), (indexName, maxIndexBytes),
])

/// Open an archive: its headers, its manifest, its signature where a key is given, and its index.
///
/// - Parameter publicKey: of the signer; an archive without a signature by this key is refused. Nil checks nothing.
func openArchive(_ path: String, publicKey: [UInt8]? = nil) throws -> Archive {
    let key = try publicKey.map(readPublicKey)
    do {
        return try open(path, ZipBytes(path), key)
    } catch let error as FileError {
        let message = "the archive \(path) cannot be read (\(reason(error)))"
        throw OmniDraftError.archive(Refusal(fault: "unreadable", message: message, remedy: "check the path"))
    } catch let error as ValueError {
        throw refusedArchive(path, error.message, error.fault)
    }
}

private func open(_ path: String, _ data: ZipBytes, _ key: [UInt8]?) throws -> Archive {
    let entries = ByName(try readEntries(data).map { ($0.name, $0) })
    guard let first = entries.names.first, isSame(first, manifestName) else {
        throw refusedArchive(path, "its first entry is not \(manifestName)", "entries")
    }
    var beside = ByName<[UInt8]>()
    for (name, most) in mostBeside.members {
        if let entry = entries[name] { beside[name] = try besideOf(path, data, entry, most: most) }
    }
    let archive = try described(path, entries, beside, key)
    try checkEntries(archive)
    return archive
}

/// The archive that the entries beside the files describe.
private func described(
    _ path: String, _ entries: ByName<ArchiveEntry>, _ beside: ByName<[UInt8]>, _ key: [UInt8]?
) throws -> Archive {
    let manifest = beside[manifestName] ?? []
    // The signature is checked before any field of the manifest is used.
    if let key { try verifySignature(manifest, beside[signatureName].map(decodeSignature), publicKey: key) }
    var bundle = try describedBundle(path, manifest, packed: true)
    let index = try indexOf(bundle, beside[indexName], manifest)
    bundle.found = FilePlaces(path: path, shared: nil, index: index)
    bundle.signedBy = key.map(keyId)
    return Archive(bundle: bundle, index: index, entries: entries, beside: beside)
}

/// The bytes of an entry that the manifest does not list.
private func besideOf(_ path: String, _ data: ZipBytes, _ entry: ArchiveEntry, most: Int) throws -> [UInt8] {
    if entry.size > most { throw refusedArchive(path, "\(entry.name) has more than \(most) bytes", "size") }
    var bytes: [UInt8] = []
    try readPieces(path, data: data, entry: entry) { bytes += $0 }
    if crc32(bytes) != entry.crc32 {
        throw refusedArchive(path, "the checksum of \(entry.name) is wrong", "checksum")
    }
    return bytes
}

private func indexOf(_ bundle: ModelBundle, _ data: [UInt8]?, _ manifest: [UInt8]) throws -> PackIndex {
    guard let data else { throw refusedArchive(bundle.path, "it has no \(indexName)", "index") }
    do {
        return try readIndex(data, manifest: hexOf(sha256(manifest)), files: bundle.files.names)
    } catch let error as ValueError {
        throw refusedArchive(bundle.path, "\(indexName): \(error.message)", error.fault.isEmpty ? "index" : error.fault)
    }
}

/// Check that an archive holds what it must, in order, in the sizes of the manifest.
private func checkEntries(_ archive: Archive) throws {
    let expected = archive.beside.names + archive.files
    let names = archive.entries.names
    if names.count != expected.count || !zip(names, expected).allSatisfy({ isSame($0, $1) }) {
        throw refusedArchive(archive.path, "it does not hold the files that its index names, in their order", "entries")
    }
    for name in archive.files {
        let (size, bytes) = (archive.entries[name]?.size ?? 0, archive.bundle.files[name]?.bytes ?? 0)
        if size != bytes {
            throw refusedArchive(archive.path, "\(name) has \(size) bytes instead of \(bytes)", "size")
        }
    }
}
