import Foundation

// Caches on disk: read a cache or start with an empty one, write a cache so that no crash damages it.

private let anotherPair = "use it with the pair of models that it was learned from"
private let remedies = [
    "not_a_cache": "check the path",
    "unreadable": "check the path and its permissions",
    "unwritable": "choose another place",
    "version": "update omnidraft",
    "foreign_vocabulary": anotherPair,
    "spelling": anotherPair,
    "id_range": anotherPair,
]
private let leftAlone = ["not_a_cache", "foreign_vocabulary"]  // no session replaces or renames such a file

struct OpenedCache {
    /// The contents of the file, or an empty cache.
    let cache: NgramCache
    /// One sentence that says why the file was refused; nil if it was not.
    let problem: String?
}

/// The cache in a file, or an empty cache: a bad file never stops a generation.
///
/// - Throws: ``OmniDraftError/setting(_:)``: a capacity below 1.
func openCache(_ path: String, _ map: VocabMap, capacity: Int = Defaults.cacheCapacity) throws -> OpenedCache {
    let empty = try NgramCache(map, capacity: capacity)
    if isAbsent(path) { return OpenedCache(cache: empty, problem: nil) }
    do {
        let cache = try NgramCache(tableAt(path, map), map, capacity: capacity)
        return OpenedCache(cache: cache, problem: nil)
    } catch OmniDraftError.cacheFile(let refusal) {
        let after = afterRefusal(path, refusal.fault)
        let problem = "starting with an empty cache: \(path) is refused: \(refusal.message); \(after)"
        return OpenedCache(cache: empty, problem: problem)
    }
}

/// What becomes of a refused file.
private func afterRefusal(_ path: String, _ fault: String) -> String {
    if leftAlone.contains(fault) && !isFree(path) { return "it is left alone, and nothing is saved there" }
    if fault == "unreadable" { return "check the path and its permissions" }
    return isFree(path) ? "saving replaces it" : "saving keeps it under another name"
}

/// The table in a cache file, checked against a vocabulary map if one is given.
///
/// - Throws: ``OmniDraftError/cacheFile(_:)`` with the name of the fault, the path and the remedy.
func readCacheTable(_ path: String, _ map: VocabMap? = nil) throws -> CacheTable {
    do {
        return try tableAt(path, map)
    } catch OmniDraftError.cacheFile(let refusal) {
        let remedy = remedies[refusal.fault] ?? "give a whole copy of it"
        throw cacheError(refusal.fault, "\(path) is refused: \(refusal.message)", remedy)
    }
}

private func tableAt(_ path: String, _ map: VocabMap?) throws -> CacheTable {
    let table = try decodeCache(Bytes(read(path)))
    if let map { try checkAgainst(table, map) }
    return table
}

/// Whether the file is absent. A link whose target is absent counts as absent.
private func isAbsent(_ path: String) -> Bool { !path.utf8.contains(0) && !exists(path) }

/// Whether writing there loses nothing: the file is absent or empty.
private func isFree(_ path: String) -> Bool {
    if isAbsent(path) { return true }
    guard let file = try? OpenFile(path) else { return false }
    return file.size == 0
}

/// The bytes of a file, at most one more than its header promises: a wrong file is not read to its end.
private func read(_ path: String) throws -> [UInt8] {
    do {
        let file = try OpenFile(path)
        let head = try file.read(cacheHeaderBytes)
        let promised = try decodeCacheHeader(Bytes(head)).fileBytes
        if promised > maxCacheBytes { return head }  // which is refused as it is
        if file.size > promised {
            throw cacheError("trailing_bytes", "it goes on for \(counted(file.size - promised, "byte")) after its end")
        }
        return try head + file.read(max(0, file.size - head.count))
    } catch let error as FileError {
        throw cacheError("unreadable", "it cannot be read (\(error.message))")
    }
}

/// Refuses a path that no cache can be read from and saved to, before any work is done for it.
///
/// - Throws: ``OmniDraftError/cacheFile(_:)``: `unwritable`.
func checkPlace(_ path: String) throws {
    do { _ = try placeOf(path) } catch let error as FileError { throw unwritable(path, error) }
}

/// Saves a cache; killed at any point, the old file or the new one is there, whole.
///
/// - Returns: the new name of the old file, if that was a damaged cache; else nil.
@discardableResult
func writeCache(_ path: String, _ cache: NgramCache) throws -> String? {
    let table = cache.table()
    let fault = faultAt(path, table.draftFingerprint, table.targetFingerprint)
    if let fault, leftAlone.contains(fault) { throw leftAloneError(path, fault) }
    return try write(path, table, keep: fault != nil)
}

/// Saves a table; it replaces only a whole cache of its pair.
///
/// - Throws: ``OmniDraftError/cacheFile(_:)``: `unwritable`.
func writeCacheTable(_ path: String, _ table: CacheTable) throws {
    try checkPlace(path)
    if faultAt(path, table.draftFingerprint, table.targetFingerprint) != nil {
        let message = "\(path) is not a whole cache of this pair of models, so it is not replaced"
        throw cacheError("unwritable", message, "choose another place")
    }
    try write(path, table, keep: false)
}

@discardableResult
private func write(_ path: String, _ table: CacheTable, keep: Bool) throws -> String? {
    do {
        return try writeAtomically(path, encodeCache(table), keep: keep)
    } catch let error as FileError {
        throw unwritable(path, error)
    }
}

private func leftAloneError(_ path: String, _ fault: String) -> OmniDraftError {
    let what = fault == "not_a_cache" ? "not an n-gram cache" : "a cache of another pair of models"
    return cacheError(fault, "\(path) is \(what), so it is left alone", "give another file, or the name of a new one")
}

private func unwritable(_ path: String, _ error: FileError) -> OmniDraftError {
    cacheError("unwritable", "the cache cannot be written to \(path) (\(error.message))", "choose another place")
}

/// Why a table of a pair may not replace a file; nil for no file and for a whole cache of the same pair.
private func faultAt(_ path: String, _ draftFingerprint: String, _ targetFingerprint: String) -> String? {
    if isFree(path) { return nil }
    do {
        let old = try tableAt(path, nil)
        let isSame = old.draftFingerprint == draftFingerprint && old.targetFingerprint == targetFingerprint
        return isSame ? nil : "foreign_vocabulary"
    } catch {
        return (error as? OmniDraftError)?.fault ?? "unreadable"
    }
}
