package io.omnidraft // an app imports one package

import io.omnidraft.bundle.MOST_EXACT
import io.omnidraft.disk.isHexadecimal
import java.io.File
import java.io.InputStream

/** Where an archive of a bundle comes from; `omnidraft pack` makes archives. */
public sealed interface BundleSource {
    /**
     * An archive that is read once from its beginning, such as an asset of the app.
     *
     * @property stream the archive; it is closed at the end.
     */
    public class Stream(public val stream: InputStream) : BundleSource

    /**
     * An archive in the file system.
     *
     * @property file the archive; it stays.
     */
    public class Archive(public val file: File) : BundleSource

    /**
     * An archive on a web server. A download that ended early goes on where it ended when it is asked for again.
     *
     * @property address begins with `https://`.
     * @property bytes of the archive; not one more is read.
     * @property sha256 of the archive, 64 digits `0-9a-f`.
     * @throws SettingException one of them is not as above.
     */
    public class Download(
        public val address: String,
        public val bytes: Long,
        public val sha256: String,
    ) : BundleSource {
        init {
            if (!address.startsWith("https://")) {
                throw SettingException("address $address does not begin with https://", "use HTTPS", "address")
            }
            if (bytes !in 1..MOST_EXACT) throw SettingException("bytes $bytes is no size of an archive", "", "bytes")
            if (!isHexadecimal(sha256, 64)) {
                throw SettingException("sha256 $sha256 does not have 64 digits 0-9a-f", "", "sha256")
            }
        }
    }
}
