import Foundation

// The last full check of a bundle's files on this device, by their stamps (spec/08-phones.md, "Stamps").
//
// A stamp detects damage by a copy, and every ordinary way to change or replace a file. It does not detect somebody who
// may write the file and hides it (by the clock, by the disk below the file system, on a file system in memory by a
// mapped page), or bits that changed on the disk.

private let kind = "checked"
private let format = "omnidraft.checked"
private let formatVersion = 1
private let settled = 3_000_000_000  // ns: times of a file system may be coarse; FAT has steps of 2 s
private let second = 1_000_000_000  // ns

/// What a file system says of a file.
struct Stamp: Sendable, Equatable {
    /// Bytes.
    let size: Int
    /// ns since 1970, when the content last changed; a program can set it.
    let modified: Int
    /// ns since 1970, when the entry last changed, which no program can set; 0 where there is none.
    let changed: Int
    /// 0 where the system has none.
    let inode: UInt64
    /// 0 where the system has none.
    let device: UInt64

    /// What stays equal while a program runs; some file systems give another inode number each time.
    var times: [Int] { [size, modified, changed] }

    /// Whether it tells a file that was replaced; a file without such a stamp is hashed each time.
    var isComplete: Bool { changed != 0 && inode != 0 }
}

/// The stamp of a file, links followed.
///
/// - Throws: ``FileError``: the file is absent.
func stampOf(_ path: String) throws -> Stamp {
    if path.utf8.contains(0) { throw FileError("no file can have that name") }
    var status = stat()
    if stat(path, &status) != 0 { throw systemError(errno) }
    #if canImport(Darwin)
        let (modified, changed) = (status.st_mtimespec, status.st_ctimespec)
    #else
        let (modified, changed) = (status.st_mtim, status.st_ctim)
    #endif
    return Stamp(
        size: Int(status.st_size), modified: nanoseconds(modified), changed: nanoseconds(changed),
        inode: UInt64(truncatingIfNeeded: status.st_ino), device: UInt64(truncatingIfNeeded: status.st_dev))
}

private func nanoseconds(_ time: timespec) -> Int { Int(time.tv_sec) &* second &+ Int(time.tv_nsec) }

/// ns since 1970.
func nanosecondsNow() -> Int {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return nanoseconds(time)
}

/// Writes to the disk what programs changed through mapped pages, before the stamp is taken.
///
/// The times of a file change when a page of it is written that is not waiting for the disk. So a later change through a
/// page that was mapped before is seen, but not on a file system in memory.
func writeBack(_ path: String) {
    guard let file = try? OpenFile(path) else { return }  // who hashes it says why
    fsync(file.descriptor)  // a system that refuses has no such pages or lets only writers do so
}

/// Whether all files had these stamps when they were last checked in full.
func wasChecked(_ state: StateDirectory, path: String, seal: String, stamps: ByName<Stamp>) -> Bool {
    if !stamps.values.allSatisfy(\.isComplete) { return false }
    do {
        guard let data = state.readRecord(kind, try keyOf(path, seal)) else { return false }
        let value = try mapping(parseJson(data))
        return try value["format"] == .string(format) && value["version"] == .int(formatVersion)
            && isSame(hexadecimal(value.at("seal"), 64), seal)
            && isSame(hexadecimal(value.at("stamps"), 64), digestOf(stamps))
    } catch {
        return false  // a damaged record is the same as none, and so is a path that cannot be followed
    }
}

/// Record that all files were hashed and were right.
///
/// A file that changed shortly before is not recorded: it could change again within one step of the clock, and keep its
/// stamp.
///
/// - Parameter now: ns since 1970, from before the stamps were taken.
/// - Returns: whether the record was written.
@discardableResult
func rememberCheck(
    _ state: StateDirectory, path: String, seal: String, stamps: ByName<Stamp>, now: Int
) -> Bool {
    if !stamps.values.allSatisfy({ $0.isComplete && $0.changed <= now - settled }) { return false }
    let record: JsonObject = [
        "format": .string(format), "version": .int(formatVersion), "seal": .string(seal),
        "stamps": .string(digestOf(stamps)),
    ]
    guard let key = try? keyOf(path, seal), let data = try? dumpJson(.object(record)) else { return false }
    return state.writeRecord(kind, key, data)
}

/// SHA-256 of all stamps, a line each, in the order of the names.
func digestOf(_ stamps: ByName<Stamp>) -> String {
    let lines = stamps.sorted.map { name, stamp in
        "\(name)\0\(stamp.size) \(stamp.modified) \(stamp.changed) \(stamp.inode) \(stamp.device)\n"
    }
    return hexOf(sha256(Array(lines.joined().utf8)))
}

private func keyOf(_ path: String, _ seal: String) throws -> String { recordKey([try realPath(path), seal]) }
