import Foundation
import XCTest

@testable import OmniDraft

/// A web server in this process that answers each request with the bytes that a test gives.
final class WebServer: Sendable {
    let address: URL
    private let socketNumber: Int32
    private let answers: @Sendable (String) -> [UInt8]
    private let seen = Guarded<[String]>([])

    /// The headers of the requests so far.
    var requests: [String] { seen.with { $0 } }

    /// - Parameter answers: gets the header of a request, and gives the whole answer; the connection ends behind it.
    init(_ answers: @escaping @Sendable (String) -> [UInt8]) throws {
        self.answers = answers
        #if canImport(Darwin)
            let kind = SOCK_STREAM
        #else
            let kind = Int32(SOCK_STREAM.rawValue)
        #endif
        signal(SIGPIPE, SIG_IGN)  // a client that goes away early
        socketNumber = socket(AF_INET, kind, 0)
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let number = socketNumber
        let isBound = withUnsafeMutablePointer(to: &place) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(number, $0, size) == 0 && listen(number, 8) == 0 && getsockname(number, $0, &size) == 0
            }
        }
        guard isBound, let url = URL(string: "http://127.0.0.1:\(UInt16(bigEndian: place.sin_port))/a.zip") else {
            throw systemError(errno)
        }
        address = url
        Thread.detachNewThread { [self] in serve() }
    }

    func close() { shutdown(socketNumber, Int32(SHUT_RDWR)) }

    private func serve() {
        while true {
            let client = accept(socketNumber, nil, nil)
            if client < 0 { break }
            var header: [UInt8] = []
            var byte: UInt8 = 0
            while !header.suffix(4).elementsEqual("\r\n\r\n".utf8), read(client, &byte, 1) == 1 {
                header.append(byte)
            }
            send(client, String(decoding: header, as: UTF8.self))
            _ = Foundation.close(client)
        }
        _ = Foundation.close(socketNumber)
    }

    private func send(_ client: Int32, _ header: String) {
        seen.with { $0.append(header) }
        do {
            try writeAll(client, answers(header))
        } catch {
            print("the client went away: \(error)")
        }
    }
}
