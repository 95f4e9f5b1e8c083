package io.omnidraft.base

import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.ClaimException
import io.omnidraft.disk.bytesOf
import io.omnidraft.disk.claim
import io.omnidraft.disk.crc32
import io.omnidraft.disk.f32
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.i64
import io.omnidraft.disk.mapFile
import io.omnidraft.disk.newDirectory
import io.omnidraft.disk.openFile
import io.omnidraft.disk.readFile
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.recover
import io.omnidraft.disk.removeLeftovers
import io.omnidraft.disk.sha256
import io.omnidraft.disk.takeName
import io.omnidraft.disk.u16
import io.omnidraft.disk.u32
import io.omnidraft.disk.writeAtomically
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

class FilesTest {
    @TempDir
    lateinit var folder: File

    private fun mode(file: File) = PosixFilePermissions.toString(Files.getPosixFilePermissions(file.toPath()))

    @Test
    fun `only regular files are read, and no more than asked for`() {
        val file = File(folder, "file").apply { writeBytes(ByteArray(100) { it.toByte() }) }
        assertArrayEquals(byteArrayOf(0, 1, 2), readFile(file, 3))
        assertEquals(100, readWhole(file, 100).size)
        assertEquals("it has more than 99 bytes", assertThrows(IOException::class.java) { readWhole(file, 99) }.message)
        assertEquals(99, mapFile(file).get(99))
        assertThrows(FileNotFoundException::class.java) { openFile(File(folder, "absent")) }
        assertEquals("it is a directory", assertThrows(IOException::class.java) { openFile(folder) }.message)
        assertEquals("it is not a regular file", assertThrows(IOException::class.java) { openFile(File("/dev/zero")) }.message)
        assertThrows(IOException::class.java) { openFile(File("a\u0000b")) }
    }

    @Test
    fun `a file is replaced whole, keeps its permissions, and a link is written through`() {
        val file = File(folder, "file")
        assertEquals(null, writeAtomically(file, byteArrayOf(1)))
        assertEquals("rw-------", mode(file))
        Files.setPosixFilePermissions(file.toPath(), PosixFilePermissions.fromString("rw-r-----"))
        val link = File(folder, "link").also { Files.createSymbolicLink(it.toPath(), file.toPath().fileName) }
        writeAtomically(link, byteArrayOf(2))
        assertTrue(Files.isSymbolicLink(link.toPath()))
        assertArrayEquals(byteArrayOf(2), file.readBytes())
        assertEquals("rw-r-----", mode(file))
        assertEquals("file.refused", writeAtomically(file, byteArrayOf(3), keep = true)!!.name)
        assertEquals("file.refused-2", writeAtomically(file, byteArrayOf(4), keep = true)!!.name)
        assertArrayEquals(byteArrayOf(3), File(folder, "file.refused-2").readBytes())
        assertEquals(setOf("file", "link", "file.refused", "file.refused-2"), folder.list()!!.toSet())
        val dangling = File(folder, "dangling").also { Files.createSymbolicLink(it.toPath(), File("new").toPath()) }
        writeAtomically(dangling, byteArrayOf(5))
        assertArrayEquals(byteArrayOf(5), File(folder, "new").readBytes())
    }

    @Test
    fun `places that cannot be written are named`() {
        assertEquals("it is a directory", assertThrows(IOException::class.java) { writeAtomically(folder, ByteArray(0)) }.message)
        val absent = assertThrows(IOException::class.java) { writeAtomically(File(folder, "a/b"), ByteArray(0)) }
        assertTrue("there is no directory" in absent.message!!)
        val long = assertThrows(IOException::class.java) { writeAtomically(File(folder, "x".repeat(250)), ByteArray(0)) }
        assertEquals("its name is too long", long.message)
    }

    @Test
    fun `leftovers of killed writers are removed when they are old`() {
        val leftover = File(folder, ".file.0123456789abcdef.tmp").apply { writeText("half") }
        File(folder, ".file.tmp").writeText("another program's")
        writeAtomically(File(folder, "file"), byteArrayOf(1))
        assertTrue(leftover.exists())
        assertEquals(1, removeLeftovers(File(folder, "file")))
        assertEquals(setOf("file", ".file.tmp"), folder.list()!!.toSet())
    }

    @Test
    fun `a directory is claimed once, in this process and in another`() {
        val place = File(folder, "place")
        val first = claim(place)
        assertEquals("in_use", assertThrows(ClaimException::class.java) { claim(place) }.fault)
        first.close()
        first.close()
        claim(place).close()
        val command = listOf("python3", "-c", HOLD, File(folder, ".place.lock").path)
        val other = ProcessBuilder(command).redirectErrorStream(true).start()
        assertEquals("held", other.inputStream.bufferedReader().readLine())
        assertThrows(ClaimException::class.java) { claim(place) }
        other.destroyForcibly().waitFor()
        claim(place).close()
        File(folder, "file").writeText("")
        assertThrows(IOException::class.java) { claim(File(folder, "file")) }
        val absent = assertThrows(IOException::class.java) { claim(File(folder, "no/place")) }
        assertEquals("there is no directory ${File(folder, "no")}: make it first", absent.message)
    }

    @Test
    fun `a directory takes its name whole, and what a kill left is put right`() {
        val out = File(folder, "out")
        repeat(2) { round ->
            newDirectory(out) { work ->
                File(work, "a").writeText("$round")
                takeName(work, out)
            }
            assertEquals("$round", File(out, "a").readText())
        }
        assertThrows(IllegalStateException::class.java) { newDirectory(out) { error("killed") } }
        assertEquals(listOf("out"), folder.list()!!.toList())
        out.renameTo(File(folder, ".out.0123456789abcdef.old"))
        File(folder, ".out.00000000000000aa.tmp").mkdir()
        newDirectory(out) { recover(out) }
        assertEquals("1", File(out, "a").readText())
        assertEquals(listOf("out"), folder.list()!!.toList())
    }

    @Test
    fun `numbers are little-endian`() {
        val data = ByteWriter().u16(0xfffe).u32(0xfffffffeL).i64(-2).f32(-0.5f).bytes()
        assertEquals("fefffefffffffeffffffffffffff000000bf", hexOf(data))
        assertEquals(0xfffe, u16(data, 0))
        assertEquals(0xfffffffeL, u32(data, 2))
        assertEquals(-2L, i64(data, 6))
        assertEquals(-0.5f, f32(data, 14))
        assertArrayEquals(data, bytesOf(hexOf(data)))
        assertEquals(0xcbf43926L, crc32("123456789".toByteArray()))
        assertEquals("ba7816bf", hexOf(sha256("abc".toByteArray())).take(8))
    }

    private companion object {
        const val HOLD = "import fcntl,sys,time\nf=open(sys.argv[1],'a')\nfcntl.lockf(f,fcntl.LOCK_EX)\n" +
            "print('held',flush=True)\ntime.sleep(60)"
    }
}
