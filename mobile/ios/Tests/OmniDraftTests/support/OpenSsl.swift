import Foundation
import XCTest

@testable import OmniDraft

// Ed25519 for tests: CryptoKit on Apple's systems, and OpenSSL where there is no CryptoKit. The library itself never
// links OpenSSL; a test lends it OpenSSL's with `withEd25519`.

#if canImport(CryptoKit)
    import CryptoKit

    /// Runs `body` where signatures can be checked, which CryptoKit does anyway.
    func withEd25519<T>(_ body: () throws -> T) rethrows -> T { try body() }

    /// The same for a body that waits.
    func withEd25519<T>(_ body: () async throws -> T) async rethrows -> T { try await body() }

    /// The public key of a secret key of 32 bytes, and its signature of some bytes.
    func signed(_ data: [UInt8], seed: [UInt8]) throws -> (publicKey: [UInt8], value: [UInt8]) {
        let key = try Curve25519.Signing.PrivateKey(rawRepresentation: seed)
        return (Array(key.publicKey.rawRepresentation), Array(try key.signature(for: data)))
    }
#else
    import COpenSSL

    /// Runs `body` while the runtime checks signatures with OpenSSL.
    func withEd25519<T>(_ body: () throws -> T) rethrows -> T {
        let before = lend()
        defer { givenEd25519.with { $0 = before } }
        return try body()
    }

    /// The same for a body that waits.
    func withEd25519<T>(_ body: () async throws -> T) async rethrows -> T {
        let before = lend()
        defer { givenEd25519.with { $0 = before } }
        return try await body()
    }

    /// Gives OpenSSL's check and signatures, and returns the check before.
    private func lend() -> (@Sendable ([UInt8], [UInt8], [UInt8]) -> Bool)? {
        givenSigner.with { $0 = signed(_:seed:) }
        return givenEd25519.with { given in
            defer { given = isValidByOpenSsl }
            return given
        }
    }

    @Sendable private func isValidByOpenSsl(_ data: [UInt8], _ signature: [UInt8], _ publicKey: [UInt8]) -> Bool {
        guard let key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nil, publicKey, publicKey.count) else {
            return false
        }
        defer { EVP_PKEY_free(key) }
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        return EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, data, data.count) == 1
    }

    /// The public key of a secret key of 32 bytes, and its signature of some bytes.
    func signed(_ data: [UInt8], seed: [UInt8]) throws -> (publicKey: [UInt8], value: [UInt8]) {
        let key = try XCTUnwrap(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count))
        defer { EVP_PKEY_free(key) }
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var (publicKey, value) = ([UInt8](repeating: 0, count: 32), [UInt8](repeating: 0, count: 64))
        var (keyBytes, valueBytes) = (publicKey.count, value.count)
        let isSigned =
            EVP_PKEY_get_raw_public_key(key, &publicKey, &keyBytes) == 1
            && EVP_DigestSignInit(context, nil, nil, nil, key) == 1
            && EVP_DigestSign(context, &value, &valueBytes, data, data.count) == 1
        XCTAssert(isSigned && keyBytes == 32 && valueBytes == 64)
        return (publicKey, value)
    }

    /// A key of its own for TLS on this machine, which nothing else trusts.
    final class TlsKey: @unchecked Sendable {
        /// The certificate, which a client is told to trust.
        let certificate: String
        private let context: OpaquePointer  // OpenSSL locks it

        /// - Parameter folder: for the files.
        init(_ folder: String) throws {
            certificate = joined(folder, "certificate.pem")
            let key = joined(folder, "key.pem")
            let openssl = Process()
            openssl.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
            openssl.arguments = [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
            ]
            openssl.standardError = FileHandle.nullDevice
            try openssl.run()
            openssl.waitUntilExit()
            XCTAssertEqual(openssl.terminationStatus, 0)
            context = try XCTUnwrap(SSL_CTX_new(TLS_server_method()))
            XCTAssertEqual(SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM), 1)
            XCTAssertEqual(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), 1)
        }

        deinit { SSL_CTX_free(context) }

        /// Answers a client: reads the header of a request and writes what `answer` gives.
        func serve(_ client: Int32, _ answer: (String) -> [UInt8]) {
            let connection = SSL_new(context)
            defer { SSL_free(connection) }
            guard SSL_set_fd(connection, client) == 1, SSL_accept(connection) == 1 else { return }
            var (header, byte): ([UInt8], UInt8) = ([], 0)
            while !header.suffix(4).elementsEqual("\r\n\r\n".utf8), SSL_read(connection, &byte, 1) == 1 {
                header.append(byte)
            }
            let data = answer(String(decoding: header, as: UTF8.self))
            var done = 0
            while done < data.count {
                let count = data[done...].withUnsafeBytes { SSL_write(connection, $0.baseAddress, Int32($0.count)) }
                if count <= 0 { return }
                done += Int(count)
            }
            SSL_shutdown(connection)
        }
    }
#endif
