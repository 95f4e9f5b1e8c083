package io.omnidraft // an app imports one package

import io.omnidraft.archive.Web
import io.omnidraft.sync.readInFolder
import io.omnidraft.sync.readOnServer
import java.io.File

/**
 * Releases in a folder of this device, such as one that another app keeps in step with a server.
 *
 * @property folder where the layout of a store begins.
 */
public class ReleaseFolder(public val folder: File) : ReleaseSource {
    override fun read(path: String, most: Long): ByteArray? = readInFolder(folder, path, most)
}

/**
 * Releases on a web server. A transfer that brings less than 1,024 bytes a second over 10 seconds is given up.
 *
 * @property address where the layout of a store begins; begins with `https://`.
 * @throws SettingException it does not.
 */
public class ReleaseServer internal constructor(public val address: String, private val web: Web) : ReleaseSource {
    public constructor(address: String) : this(address, Web())

    init {
        if (!address.startsWith("https://")) {
            throw SettingException("address $address does not begin with https://", "use HTTPS", "address")
        }
    }

    override fun read(path: String, most: Long): ByteArray? = readOnServer(address, path, most, web)
}
