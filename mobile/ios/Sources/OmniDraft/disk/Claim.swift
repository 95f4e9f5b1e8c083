import Foundation

// Claim a directory or a file for one process: a lock that the system drops with the process. spec/08-phones.md, flock.

/// A place that another process, or another user in this process, has claimed; the fault is `in_use`.
struct ClaimError: Error {
    let place: String

    var refusal: Refusal {
        Refusal(
            fault: "in_use", message: "\(place) is in use by another process",
            remedy: "wait for it, or choose another place")
    }
}

/// A claimed place. It is given back by ``close()`` or with the object; a process that ends, even by a kill, gives it
/// back too.
final class Claim: @unchecked Sendable {
    private let name: String
    private let descriptor: Int32
    private let state = Guarded(true)

    /// Claims a directory, made where it is absent.
    ///
    /// - Throws: ``ClaimError``, or ``FileError`` where the directory cannot be made or used.
    convenience init(_ directory: String) throws {
        if !exists(directory), mkdir(directory, 0o700) != 0 {
            guard errno == ENOENT else { throw systemError(errno) }
            throw FileError("there is no directory \(split(directory).directory): make it first")
        }
        if !isDirectory(directory) { throw FileError("it is not a directory") }
        if access(directory, R_OK | W_OK | X_OK) != 0 { throw FileError("the directory may not be read and written") }
        guard let real = realpath(directory, nil) else { throw systemError(errno) }
        defer { free(real) }
        try self.init(String(cString: real), O_RDONLY)
    }

    /// Claims a file, made where it is absent.
    ///
    /// - Throws: ``ClaimError``, or ``FileError`` where the file cannot be made or written.
    convenience init(file: String) throws { try self.init(file, O_WRONLY | O_CREAT) }

    private init(_ place: String, _ flags: Int32) throws {
        // A lock of the system does not exclude two users in one process.
        if !claimed.with({ $0.insert(place).inserted }) { throw ClaimError(place: place) }
        name = place
        descriptor = open(place, flags | O_CLOEXEC, 0o600)
        // `deinit` gives the place back.
        if descriptor < 0 { throw systemError(errno) }
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 { throw ClaimError(place: place) }
    }

    deinit { close() }

    /// Gives the place back; a second call does nothing.
    func close() {
        let wasHeld = state.with { held in
            defer { held = false }
            return held
        }
        if !wasHeld { return }
        systemClose(descriptor)
        let name = name
        claimed.with { _ = $0.remove(name) }
    }
}

private let claimed = Guarded<Set<String>>([])

/// Closes a descriptor, also in a method whose object has a `close` of its own.
func systemClose(_ descriptor: Int32) { close(descriptor) }

/// A value behind a lock.
final class Guarded<Value>: @unchecked Sendable {
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    init(_ value: Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Calls `body` with the value while no one else has it.
    func with<T>(_ body: (inout Value) throws -> T) rethrows -> T {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
