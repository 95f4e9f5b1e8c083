package io.omnidraft.sync

import io.omnidraft.SyncException
import io.omnidraft.models.Adapter
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.encodeAdapter
import java.io.File

/*
 * The releases of a device beside what it learned itself: which adapter is in use, going back, and forgetting.
 */

/** The directory of what was pulled; see `Installed.kt`. */
internal class DeviceReleases(val place: File) {
    fun adapter(): Adapter? {
        val current = readInstalled(place)?.current ?: return null
        val data = kept(place, current.file) ?: throw SyncException(
            "checksum",
            "the adapter in use in $place is not the file that was pulled",
            "pull the release again",
        )
        return decodeAdapter(data)
    }

    /**
     * Use the adapter that was used before again.
     *
     * @param own the learned adapter, if that is in use now; without a release, that before it is none of this
     *   directory.
     * @throws SyncException `absent`: no adapter is in use; `in_use` or `unwritable`.
     */
    fun goBack(own: Adapter?) {
        if (own != null) {
            if (readInstalled(place) == null) return
            claimedDirectory(place) { putOwn(own) }
        }
        rollBack(place)
    }

    /** Forget the adapters that the device learned itself; the caller deletes its other traces of them. */
    fun forgetOwn() {
        val before = readInstalled(place) ?: return
        claimedDirectory(place) {
            val state = before.copy(
                current = before.current?.takeIf { it.number > 0 },
                previous = before.previous?.takeIf { it.number > 0 },
            )
            if (state != before) install(place, state)
            tidy(place, state)
        }
    }

    private fun putOwn(own: Adapter) {
        val state = readInstalled(place) ?: return
        val file = keep(place, encodeAdapter(own))
        install(place, state.switched(Used(0, file)))
    }
}
