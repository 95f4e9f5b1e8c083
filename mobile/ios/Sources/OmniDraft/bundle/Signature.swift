#if canImport(CryptoKit)
    import CryptoKit
    import Foundation
#endif

// The signature of a bundle: Ed25519 over the exact bytes of its manifest (spec/10-signing.md). The platform signs and checks.

let signatureName = "manifest.sig"

private let firstLines = "omnidraft.signature 1\nalgorithm ed25519\nkey "
private let middle = "\nsignature "
private let keyBytes = 32
private let signBit: UInt8 = 0x80  // of the last byte of a public key: the sign of x

let signatureBytes = firstLines.utf8.count + 16 + middle.utf8.count + 128 + 1

/// What stands before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410).
private let spki: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]

// y of the points of small order, without the sign of x, little-endian: anybody can make a signature that fits such a
// key. They are 0, 1, two points of order 8, p - 1, p and p + 1. The last two are not the least numbers of their y.
private let smallOrder = [
    String(repeating: "00", count: 32),
    "01" + String(repeating: "00", count: 31),
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ec" + String(repeating: "ff", count: 30) + "7f",
    "ed" + String(repeating: "ff", count: 30) + "7f",
    "ee" + String(repeating: "ff", count: 30) + "7f",
]

/// L of RFC 8032, section 5.1, the highest byte first: a signature with S >= L is refused.
private let groupOrder: [UInt8] = [
    0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0xde, 0xf9, 0xde, 0xa2, 0xf7, 0x9c, 0xd6, 0x58, 0x12, 0x63,
    0x1a, 0x5c, 0xf5, 0xd3, 0xed,
]

/// Whether this platform can check signatures. Apple's systems can; a system without CryptoKit refuses what it would
/// have to check.
let canCheckSignatures: Bool = {
    #if canImport(CryptoKit)
        return true
    #else
        return false
    #endif
}()

/// The content of a signature file: the id of the signing key (16 hexadecimal digits), and 64 bytes.
struct Signature: Sendable, Equatable {
    let keyId: String
    let value: [UInt8]
}

/// The id of a key, the first 16 hexadecimal digits of the SHA-256 of its 32 bytes: a name and not a proof.
func keyId(_ publicKey: [UInt8]) -> String { String(hexOf(sha256(publicKey)).prefix(16)) }

/// The file that holds a signature, 200 bytes of ASCII.
func encodeSignature(_ signature: Signature) -> [UInt8] {
    Array("\(firstLines)\(signature.keyId)\(middle)\(hexOf(signature.value))\n".utf8)
}

/// Read a signature file. There is one way to write a signature; any other bytes are refused.
///
/// - Throws: ``OmniDraftError/signature(_:)`` `malformed`.
func decodeSignature(_ data: [UInt8]) throws -> Signature {
    if data.count == signatureBytes {
        let keyAt = firstLines.utf8.count
        let key = String(decoding: data[keyAt..<(keyAt + 16)], as: UTF8.self)
        let digits = String(decoding: data[(signatureBytes - 129)..<(signatureBytes - 1)], as: UTF8.self)
        if isHexadecimal(key.utf8, digits: 16) && isHexadecimal(digits.utf8, digits: 128),
            let value = try? bytesOf(hex: digits)
        {
            let signature = Signature(keyId: key, value: value)
            if encodeSignature(signature) == data { return signature }
        }
    }
    let message = "\(signatureName) is not a signature of version 1"
    throw signatureError("malformed", message, "sign the bundle again or copy it again")
}

private func signatureError(_ fault: String, _ message: String, _ remedy: String) -> OmniDraftError {
    .signature(Refusal(fault: fault, message: message, remedy: remedy))
}

/// The signature beside a manifest, unchecked; nil if there is none.
///
/// - Throws: ``OmniDraftError/signature(_:)`` `malformed`, or the file cannot be read.
func readSignature(_ bundle: String) throws -> Signature? {
    let file = joined(bundle, signatureName)
    do {
        return try decodeSignature(OpenFile(file).read(signatureBytes + 1))
    } catch let error as FileError {
        if error.isAbsent { return nil }
        throw signatureError("malformed", "\(file) cannot be read (\(reason(error)))", "copy the whole bundle again")
    }
}

/// Check a signature over the bytes of a manifest.
///
/// - Parameter signature: nil if the bundle has none.
/// - Throws: ``OmniDraftError/signature(_:)`` `unsigned`, `other_key`, `wrong_signature`.
func verifySignature(_ manifest: [UInt8], _ signature: Signature?, publicKey: [UInt8]) throws {
    guard let signature else {
        let message = "the bundle is not signed, and a public key was given"
        throw signatureError("unsigned", message, "ask its publisher for a signed bundle")
    }
    switch try signatureFault(manifest, signature, publicKey: publicKey) {
    case nil: return
    case "other_key":
        let given = keyId(publicKey)
        let message = "this bundle was signed with key \(signature.keyId) and the public key given is \(given)"
        throw signatureError("other_key", message, "give its signer's key, or do not use this bundle")
    default:
        let message = "the signature does not fit manifest.json: one of them was changed after signing"
        throw signatureError("wrong_signature", message, "copy the bundle again, and do not use this one")
    }
}

/// The fault of a signature over bytes, `other_key` or `wrong_signature`; nil if it is valid.
///
/// - Throws: ``OmniDraftError/signature(_:)`` `unverifiable`.
func signatureFault(_ data: [UInt8], _ signature: Signature, publicKey: [UInt8]) throws -> String? {
    if !isSame(signature.keyId, keyId(publicKey)) { return "other_key" }
    if isOfSmallOrder(publicKey) || signature.value.count != 64 || !isBelowOrder(signature.value[32...]) {
        return "wrong_signature"
    }
    return try isValid(data, signature.value, publicKey) ? nil : "wrong_signature"
}

private func isOfSmallOrder(_ publicKey: [UInt8]) -> Bool {
    guard let last = publicKey.last else { return false }
    return smallOrder.contains(hexOf(publicKey.dropLast() + [last & ~signBit]))
}

/// Whether S of a signature is below L; S is little-endian.
private func isBelowOrder(_ s: ArraySlice<UInt8>) -> Bool { s.reversed().lexicographicallyPrecedes(groupOrder) }

/// The 32 bytes of an Ed25519 public key.
///
/// - Throws: ``OmniDraftError/setting(_:)``: it is neither.
func readPublicKey(_ key: [UInt8]) throws -> [UInt8] {
    if key.count == keyBytes { return key }
    if key.count == spki.count + keyBytes && key.starts(with: spki) { return Array(key[spki.count...]) }
    throw settingError(
        "a public key of Ed25519 has 32 bytes, or 44 with its header, not \(key.count)",
        "give the 32 bytes, or the decoded Base64 of the PEM file that `omnidraft keygen` writes")
}

#if canImport(CryptoKit)
    private func isValid(_ data: [UInt8], _ signature: [UInt8], _ publicKey: [UInt8]) throws -> Bool {
        // A key that is no point has no valid signature.
        guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: publicKey) else { return false }
        return key.isValidSignature(signature, for: data)
    }

    /// The public key of a seed of 32 bytes, and its signature of some bytes.
    func signedByKey(_ data: [UInt8], seed: [UInt8]) throws -> (publicKey: [UInt8], value: [UInt8]) {
        let key = try Curve25519.Signing.PrivateKey(rawRepresentation: seed)
        return (Array(key.publicKey.rawRepresentation), Array(try key.signature(for: data)))
    }
#else
    /// Checks signatures on a system without CryptoKit, which no phone is: tests give OpenSSL's check, so that all
    /// behind a signature runs there too. Nil: what has to be checked is refused.
    let givenEd25519 = Guarded<(@Sendable (_ data: [UInt8], _ signature: [UInt8], _ publicKey: [UInt8]) -> Bool)?>(nil)

    private func isValid(_ data: [UInt8], _ signature: [UInt8], _ publicKey: [UInt8]) throws -> Bool {
        if let check = givenEd25519.with({ $0 }) { return check(data, signature, publicKey) }
        let message = "this system has no Ed25519, so the signature cannot be checked"
        throw signatureError("unverifiable", message, "open the bundle without a key, or on another system")
    }

    /// Signs in tests, as ``givenEd25519`` checks.
    let givenSigner = Guarded<
        (@Sendable (_ data: [UInt8], _ seed: [UInt8]) throws -> (publicKey: [UInt8], value: [UInt8]))?
    >(nil)

    func signedByKey(_ data: [UInt8], seed: [UInt8]) throws -> (publicKey: [UInt8], value: [UInt8]) {
        if let sign = givenSigner.with({ $0 }) { return try sign(data, seed) }
        let message = "this system has no Ed25519, so nothing can be signed"
        throw signatureError("unverifiable", message, "sign on another system")
    }
#endif
