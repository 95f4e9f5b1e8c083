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
#endif
