package io.omnidraft

import io.omnidraft.archive.install
import io.omnidraft.session.openLoaded
import java.io.File

/** Speculative decoding with one drafter for any target: the place where an app begins. */
public object OmniDraft {
    /**
     * Opens a bundle: checks its files and loads its models. Blocks: it hashes files, and may measure for 2 s.
     *
     * @param directory of the bundle.
     * @throws OmniDraftException the bundle is damaged, incomplete or unsigned, or needs more memory than there is.
     */
    public fun open(directory: File, options: LoadOptions = LoadOptions()): LanguageModel =
        inHeap { LanguageModel(openLoaded(directory, options), options.publicKey) }

    /**
     * Unpacks a bundle that travels as an archive. A directory that holds the same bundle, with the archive's signature,
     * is used as it is; one that holds another bundle is refused and stays, unless [overwrite] is asked for. Blocks.
     *
     * @param source of the archive.
     * @param into the directory of the bundle; made, with those above it.
     * @param overwrite whether another bundle at the place is replaced once the new one is whole; for an app whose
     *   update brings a new bundle.
     * @param onProgress called with the bytes that are done and all bytes; a download counts each byte twice, once when
     *   it is read and once when it is unpacked.
     * @return the directory, for [open].
     * @throws ArchiveException the archive is refused, the place cannot be written, or another call downloads to it.
     */
    public fun unpack(
        source: BundleSource,
        into: File,
        overwrite: Boolean = false,
        onProgress: (Long, Long) -> Unit = { _, _ -> },
    ): File = install(source, into, overwrite = overwrite, progress = onProgress)
}
