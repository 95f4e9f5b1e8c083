package io.omnidraft

import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Session

/** The models of an opened bundle: any number of sessions share it, from any threads. */
public class LanguageModel internal constructor(
    private val loaded: LoadedBundle,
    private val publicKey: ByteArray?,
) : AutoCloseable {
    /** That it runs without the drafter, or on the CPU instead of another provider. */
    public val notices: List<Notice> get() = loaded.notices

    /**
     * A session with KV buffers and an n-gram cache of its own.
     *
     * @throws AdapterException the adapter is refused.
     * @throws BundleException `memory`; the device does not give the memory of its KV buffers.
     */
    public fun session(options: SessionOptions = SessionOptions()): TextSession =
        inHeap {
            val session = Session(loaded, options.cache, options.adapter).also { it.dropsOldest = options.dropsOldest }
            TextSession(session, options, publicKey)
        }

    /** Frees the models, those in use as soon as their sessions are closed. */
    override fun close(): Unit = loaded.close()
}
