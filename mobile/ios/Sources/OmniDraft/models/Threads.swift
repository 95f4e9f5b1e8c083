import Foundation

// How many threads a pass of the target runs on (spec/08-phones.md, "Threads").

private let threadsPerCore = 4  // at most; more only take memory and time
private let smallModel = 50_000_000  // parameters; waking threads costs a smaller model more time than they save
private let mostThreads = 4  // of a phone; more cores wait for memory, and heat it
private let leastSpeed = 0.95  // of the fastest; fewer threads heat a phone less

/// Refuses a number of threads that this device would only suffer from.
///
/// - Throws: ``OmniDraftError/setting(_:)``: fewer than one, or more than four for each core.
func checkThreads(_ threads: Int) throws {
    let most = threadsPerCore * cores()
    if threads < 1 || threads > most {
        let message = "threads \(threads) is outside 1..\(most), \(threadsPerCore) for each core of this device"
        throw settingError(message, "leave it out, and the target's size decides")
    }
}

func threadsFor(_ parameters: Int) -> Int { parameters < smallModel ? 1 : min(mostThreads, fastCores()) }

/// The threads of a target pass that this device is fastest with: one less, from `most` on, until that is slower.
///
/// - Parameter speed: tokens a second with a number of threads, drafted; nil where it is not known, and nothing is compared.
func fastestThreads(_ most: Int, speed: (Int) throws -> Double?) rethrows -> Int {
    var threads = most
    var best = most > 1 ? try speed(most) : nil
    while let known = best, threads > 1 {
        guard let fewer = try speed(threads - 1), fewer >= leastSpeed * known else { break }
        best = max(known, fewer)
        threads -= 1
    }
    return threads
}

private func cores() -> Int { max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))) }

#if canImport(Darwin)
    /// The performance cores; all cores, where the system does not tell them apart.
    private func fastCores() -> Int {
        var count: Int32 = 0
        var size = MemoryLayout<Int32>.size
        let isTold = sysctlbyname("hw.perflevel0.logicalcpu", &count, &size, nil, 0) == 0
        return isTold && count > 0 ? min(Int(count), cores()) : cores()
    }
#else
    private func fastCores() -> Int { cores() }
#endif
