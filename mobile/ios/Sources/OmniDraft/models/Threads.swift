import Foundation

// How many threads a pass of the target runs on (spec/08-phones.md, "Threads").

private let threadsPerCore = 4  // at most; more only take memory and time
private let smallModel = 50_000_000  // parameters; waking threads costs a smaller model more time than they save
private let mostThreads = 4  // of a phone; more cores wait for memory, and heat it

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
