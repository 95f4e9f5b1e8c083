package io.omnidraft.sync

import io.omnidraft.SyncException
import io.omnidraft.models.AdapterPlace

/*
 * Names in a store, and the channel of a bundle (spec/15-sync.md, Layout).
 */

/** Name of the record of a device, beside its files. */
internal const val RECORD = "push"

/** Name of the newest release. */
internal const val LATEST = "latest"

/**
 * The channel of a bundle's pair of models.
 *
 * @throws SyncException `no_fingerprint`.
 */
internal fun channelOfBundle(place: AdapterPlace): Channel {
    val base = place.drafter.fingerprint
    val target = place.target.fingerprint
    if (base == null || target == null) {
        val role = if (base == null) "drafter" else "target"
        throw SyncException(
            "no_fingerprint",
            "${place.name} does not name the weights of its $role, so nothing can be checked to fit it",
            "run `omnidraft export` again from the checkpoints",
        )
    }
    return Channel(base, target, place.draftFingerprint, place.targetFingerprint)
}

/** The name of the newest release. */
internal fun latestName(channel: Channel): String = "channels/${channel.id}/$LATEST"

/** The folder of the files of releases, named by their SHA-256. */
internal fun filesFolder(channel: Channel): String = "channels/${channel.id}/files"

/** The folder of one device: files named by their SHA-256, and the record. */
internal fun deviceFolder(channel: Channel, device: String): String = "channels/${channel.id}/devices/$device"
