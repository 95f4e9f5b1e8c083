package io.omnidraft

import java.io.File

/**
 * How a bundle is opened.
 *
 * @property publicKey of the signer, Ed25519: the 32 bytes, or the 44 bytes that the Base64 of a PEM file holds. A bundle
 *   that is not signed with it is refused. Null checks no signature.
 * @property provider where the models run.
 * @property threads of a target pass; 0: those that it is fastest with on this device, which are found out where there
 *   is a [state]. The drafter runs on one.
 * @property withDrafter whether the drafter is loaded.
 * @property freeMemory bytes that the app may still use; where both models would need more, the bundle is opened
 *   without the drafter, and where the target alone would, it is refused (fault `memory`). Null: not looked at.
 * @property state the directory of what the device remembers of its bundles: that they were checked, and how fast they
 *   are here (`omnidraft/state`). Null remembers nothing, so each opening hashes all files and may measure.
 */
public class LoadOptions(
    public val publicKey: ByteArray? = null,
    public val provider: ExecutionProvider = ExecutionProvider.CPU,
    public val threads: Int = 0,
    public val withDrafter: Boolean = true,
    public val freeMemory: Long? = null,
    public val state: File? = null,
)
