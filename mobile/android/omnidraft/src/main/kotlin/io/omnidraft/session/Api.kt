package io.omnidraft.session

import io.omnidraft.bundle.Verify
import io.omnidraft.bundle.openBundle
import io.omnidraft.traces.TracePlace
import java.io.File

/* Text in, text out: load a bundle and stream text, for the parts of this library and its tests. */

/**
 * Opens a bundle for generation: checks its files, loads both graphs and what was learned.
 *
 * @param directory the bundle's directory.
 * @param cache a file of learned n-grams. Where it is absent or refused, the session starts with an empty cache.
 * @param adapter of the drafter or of the target.
 * @param trace where to record generations, text included; null records nothing.
 * @param publicKey of the signer; null checks no signature.
 * @param verify how the files are checked.
 * @param loading see [Loading].
 * @throws io.omnidraft.OmniDraftException the bundle is damaged, incomplete or unsigned, or the adapter is refused.
 */
internal fun load(
    directory: File,
    cache: File? = null,
    adapter: File? = null,
    trace: TracePlace? = null,
    publicKey: ByteArray? = null,
    verify: Verify = Verify.AUTO,
    loading: Loading = Loading(),
): Session {
    val loaded = loadBundle(openBundle(directory, publicKey, verify, loading.state), loading)
    return Session(loaded, cache, adapter, trace)
}
