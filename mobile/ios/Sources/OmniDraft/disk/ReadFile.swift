import Foundation

// Read a regular file, or say why not: opening a pipe or a device could wait forever.

/// An open file; it is closed with the object.
final class OpenFile {
    let descriptor: Int32
    /// Bytes of the file when it was opened.
    let size: Int

    /// Opens a regular file for reading, links followed.
    init(_ path: String) throws {
        if path.utf8.contains(0) { throw FileError("no file can have that name") }
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)  // a pipe opens at once, and is refused below
        if descriptor < 0 { throw systemError(errno) }
        var status = stat()
        let isThere = fstat(descriptor, &status) == 0
        if !isThere || status.st_mode & S_IFMT != S_IFREG {
            close(descriptor)
            throw FileError(
                status.st_mode & S_IFMT == S_IFDIR ? "it is a directory" : "it is not a regular file")
        }
        self.descriptor = descriptor
        size = Int(status.st_size)
    }

    deinit { close(descriptor) }

    /// The next bytes, at most `most`; fewer at the end of the file.
    func read(_ most: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: most) { buffer, filled in
            while filled < most {
                let rest = UnsafeMutableBufferPointer(rebasing: buffer[filled...])
                let count = systemRead(descriptor, rest.baseAddress, most - filled)
                if count < 0 && errno == EINTR { continue }
                if count < 0 { throw systemError(errno) }
                if count == 0 { break }
                filled += count
            }
        }
    }
}

/// The bytes of a regular file that has at most `most` of them; a larger one is not read.
///
/// - Throws: ``FileError``: see ``OpenFile``; or the file is larger.
func readFile(_ path: String, most: Int) throws -> [UInt8] {
    let file = try OpenFile(path)
    if file.size > most { throw FileError("it has more than \(grouped(most)) bytes") }
    return try file.read(file.size)
}

/// A regular file, mapped for reading; pages are read when they are used. It must not change while it is used.
///
/// - Throws: ``FileError``: see ``OpenFile``; or it cannot be mapped.
func mapFile(_ path: String) throws -> Bytes {
    let file = try OpenFile(path)
    if file.size == 0 { return Bytes([]) }
    guard let memory = mmap(nil, file.size, PROT_READ, MAP_PRIVATE, file.descriptor, 0), memory != MAP_FAILED else {
        throw systemError(errno)
    }
    return Bytes(owner: MappedMemory(memory, file.size), base: UnsafeRawPointer(memory), count: file.size)
}

private final class MappedMemory {
    private let memory: UnsafeMutableRawPointer
    private let size: Int

    init(_ memory: UnsafeMutableRawPointer, _ size: Int) {
        self.memory = memory
        self.size = size
    }

    deinit { munmap(memory, size) }
}

/// What the system says of an error number.
func systemError(_ number: Int32) -> FileError {
    number == ENOENT
        ? FileError("there is no such file", isAbsent: true) : FileError(String(cString: strerror(number)))
}

private func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Int {
    read(descriptor, buffer, count)
}
