package io.omnidraft.device

/*
 * The last full check of a bundle's files on this device, by their stamps (spec/08-phones.md, "Stamps").
 *
 * A stamp detects damage by a copy, and every ordinary way to change or replace a file. It does not detect
 * somebody who may write the file and hides it (by the clock, by the disk below the file system, on a file system in
 * memory by a mapped page), or bits that changed on the disk.
 */

import io.omnidraft.disk.ValueError
import io.omnidraft.disk.dump
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.mapping
import io.omnidraft.disk.openFile
import io.omnidraft.disk.parse
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.sha256
import io.omnidraft.disk.unix
import io.omnidraft.parts.BY_UTF8
import java.io.File
import java.io.IOException
import java.nio.file.Files
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.attribute.FileTime
import java.util.concurrent.TimeUnit

private const val KIND = "checked"
private const val FORMAT = "omnidraft.checked"
private const val VERSION = 1L
private const val SETTLED = 3_000_000_000L // ns: times of a file system may be coarse; FAT has steps of 2 s

/**
 * What a file system says of a file.
 *
 * @property modified ns since 1970, when the content last changed; a program can set it.
 * @property changed ns since 1970, when the entry last changed, which no program can set; 0 where there is none.
 * @property inode 0 where the system has none.
 * @property device 0 where the system has none.
 */
internal data class Stamp(val size: Long, val modified: Long, val changed: Long, val inode: Long, val device: Long) {
    /** What stays equal while a program runs; some file systems give another inode number each time. */
    val times: Triple<Long, Long, Long> get() = Triple(size, modified, changed)

    /** Whether it tells a file that was replaced; a file without such a stamp is hashed each time. */
    val isComplete: Boolean get() = changed != 0L && inode != 0L
}

/** The stamp of a file, links followed. */
internal fun stampOf(file: File): Stamp {
    val path = pathOf(file)
    val all = unix(path, "size,lastModifiedTime,ctime,ino,dev")
    if (all == null) {
        val basic = Files.readAttributes(path, BasicFileAttributes::class.java)
        return Stamp(basic.size(), nanoseconds(basic.lastModifiedTime()), 0, 0, 0)
    }
    val (size, inode, device) = listOf("size", "ino", "dev").map { (all[it] as Number).toLong() }
    return Stamp(size, nanoseconds(all["lastModifiedTime"]), nanoseconds(all["ctime"]), inode, device)
}

private fun nanoseconds(time: Any?): Long = (time as FileTime).to(TimeUnit.NANOSECONDS)

/**
 * Writes to the disk what programs changed through mapped pages, before the stamp is taken.
 *
 * The times of a file change when a page of it is written that is not waiting for the disk. So a later change through a
 * page that was mapped before is seen, but not on a file system in memory (tmpfs).
 */
internal fun writeBack(file: File) {
    try {
        openFile(file).use { it.fd.sync() }
    } catch (_: IOException) {
        return // a system that lets only writers do so
    }
}

/** Whether all files had these stamps when they were last checked in full. */
internal fun wasChecked(state: StateDirectory, path: File, seal: String, stamps: Map<String, Stamp>): Boolean {
    if (!stamps.values.all { it.isComplete }) return false
    return try {
        val value = mapping(parse(state.readRecord(KIND, keyOf(path, seal)) ?: return false))
        value["format"] == FORMAT && value["version"] == VERSION && hexadecimal(value["seal"], 64) == seal &&
            hexadecimal(value["stamps"], 64) == digestOf(stamps)
    } catch (_: ValueError) {
        false // a damaged record is the same as none
    } catch (_: IOException) {
        false // the path cannot be followed
    }
}

/**
 * Record that all files were hashed and were right.
 *
 * A file that changed shortly before is not recorded: it could change again within one step of the clock, and keep its
 * stamp.
 */
internal fun rememberCheck(
    state: StateDirectory,
    path: File, // the directory of the bundle
    seal: String,
    stamps: Map<String, Stamp>, // of its files, from before they were hashed
    now: Long, // ns since 1970, from before the stamps were taken
): Boolean {
    if (!stamps.values.all { it.isComplete && it.changed <= now - SETTLED }) return false
    val record = mapOf("format" to FORMAT, "version" to VERSION, "seal" to seal, "stamps" to digestOf(stamps))
    return try {
        state.writeRecord(KIND, keyOf(path, seal), dump(record))
    } catch (_: IOException) {
        false // the path cannot be followed
    }
}

/** SHA-256 of all stamps, a line each, in the order of the names. */
internal fun digestOf(stamps: Map<String, Stamp>): String {
    val lines = stamps.toSortedMap(BY_UTF8).map { (name, stamp) -> "$name\u0000${line(stamp)}\n" }
    return hexOf(sha256(lines.joinToString("").toByteArray()))
}

private fun line(stamp: Stamp): String =
    "${stamp.size} ${stamp.modified} ${stamp.changed} ${stamp.inode} ${stamp.device}"

private fun keyOf(path: File, seal: String): String = recordKey(path.canonicalPath, seal)
