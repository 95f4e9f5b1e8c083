package io.omnidraft.conformance

import io.omnidraft.GenerationConfig
import io.omnidraft.PromptException
import io.omnidraft.SettingException
import io.omnidraft.chat.EarlierThoughts
import io.omnidraft.chat.OutputText
import io.omnidraft.chat.PromptTemplate
import io.omnidraft.chat.SystemSlot
import io.omnidraft.chat.TRIMMED_ANSWERS
import io.omnidraft.chat.ThinkTags
import io.omnidraft.chat.ThoughtStream
import io.omnidraft.chat.TrimmedEnd
import io.omnidraft.chat.answerStart
import io.omnidraft.chat.keptStart
import io.omnidraft.chat.readToolForm
import io.omnidraft.decoding.NO_IDS
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.StopText
import io.omnidraft.decoding.Utf8Stream
import io.omnidraft.decoding.cutAtStop
import io.omnidraft.disk.ValueError
import io.omnidraft.session.Generation
import io.omnidraft.session.Limits
import io.omnidraft.session.Rounds
import io.omnidraft.session.ToolText
import io.omnidraft.session.conversationIds
import io.omnidraft.session.givenTurn
import io.omnidraft.session.state.Turn
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runs the vectors of bytes to text, of where an output ends, and of the text around messages. */
class DecodingTextVectorsTest : VectorsRun() {
    private val tokenizers = HashMap<String, CompiledTokenizer>()

    private fun tokenizer(name: Any?): CompiledTokenizer = tokenizers.getOrPut(name.str()) {
        CompiledTokenizer.fromFile(ROOT.resolve("tokenize").resolve(name.str().removeSuffix(".json") + ".bin"))
    }

    @TestFactory
    fun utf8(): List<DynamicTest> = folder("utf8") { vector ->
        val stream = Utf8Stream()
        val pieces = vector.input["chunks"].list().map { stream.push(it.str().replace(" ", "").hex()) }
        assertSame(vector, "pieces", vector.expected["pieces"], pieces)
        assertEquals(vector.expected["rest"], stream.flush(), vector.why)
    }

    @TestFactory
    fun stop(): List<DynamicTest> = folder("stop") { vector ->
        val (given, expected) = vector.input to vector.expected
        val stops = given["stop"].list().map { it.str() }
        if ("refused" in expected) {
            assertThrows(SettingException::class.java, { StopText(stops) }, vector.why)
        } else {
            val text = StopText(stops)
            val config = GenerationConfig(maxNewTokens = given["max_new_tokens"].int(), seed = 0)
            // A prompt of one token: the context is full once as many tokens are out as it has positions.
            val limits = Limits(given["eos_ids"].ints().toSet(), given["room"].int())
            val generation = Generation(GivenRounds(given, text), config, intArrayOf(1), text, limits)
            val pieces = List(expected["emitted"].list().size) { generation.next() }
            assertSame(vector, "emitted", expected["emitted"], pieces.map { it.tokenIds })
            assertSame(vector, "pieces", expected["pieces"], pieces.map { it.text })
            assertSame(vector, "text", expected["text"], generation.text)
            assertSame(vector, "reason", expected["reason"], generation.stopReason?.word)
            assertSame(vector, "stop_string", expected["stop_string"], generation.stopString)
            assertSame(vector, "stop_start", expected["stop_start"], generation.stopStart)
        }
    }

    @TestFactory
    fun template(): List<DynamicTest> = folder("template", ::runTemplate)

    @TestFactory
    fun prompt(): List<DynamicTest> = folder("grammar/prompt") { vector ->
        if ("fault" !in vector.expected) return@folder runTemplate(vector)
        assertThrows(ValueError::class.java, { readToolForm(vector.input["tools"].obj()) }, vector.why)
    }

    private fun runTemplate(vector: Vector) {
        val (given, expected) = vector.input to vector.expected
        val tokenizer = tokenizer(given["tokenizer"])
        val think = given["think"]?.let { thinkTags(it.obj()) }
        if ("given" in given) {
            val prompt = PromptTemplate("", "", lead = given["lead"].str(), think = think, trim = trimOf(given))
            assertSame(vector, "ids", expected["ids"], givenTurn(tokenizer, prompt, "", given["given"].str()).answer)
        } else {
            val template = templateOf(given, think)
            val turns = given["turns"].list().map { turnOf(it.obj()) }
            val tools = given["listing"]?.let {
                ToolText(checkNotNull(template.toolForm), it.str(), template.begin, tokenizer::textOf)
            }
            val ids = { conversationIds(tokenizer, template, turns, turnOf(given), given["system"]?.str(), tools) }
            if ("refused" in expected) assertThrows(PromptException::class.java, { ids() }, vector.why)
            else assertSame(vector, "ids", expected["ids"], ids())
        }
    }

    private fun templateOf(given: Json, think: ThinkTags?): PromptTemplate = PromptTemplate(
        given["prefix"].str(), given["suffix"].str(), given["between"]?.str(), given["after"]?.str(),
        given["begin"].str(), given["lead"].str(),
        given["slot"]?.let { SystemSlot(it.obj()["before"].str(), it.obj()["after"].str()) }, think,
        trimOf(given),
        given["tools"]?.let { readToolForm(it.obj()) },
    )

    private fun turnOf(given: Json) = Turn(
        given["message"].str(),
        given["answer"]?.ints() ?: NO_IDS,
        given["results"]?.list()?.map { it.str() }.orEmpty(),
    )

    private fun trimOf(given: Json): List<TrimmedEnd> =
        given["trim"]?.list()?.map { name -> TrimmedEnd.values().first { it.word == name } } ?: TRIMMED_ANSWERS

    private fun thinkTags(given: Json): ThinkTags {
        val earlier = EarlierThoughts.values().first { it.word == given["earlier"] }
        return ThinkTags(given["open"].str(), given["close"].str(), earlier)
    }

    @TestFactory
    fun thought(): List<DynamicTest> = folder("thought") { vector ->
        val (given, expected) = vector.input to vector.expected
        val tags = thinkTags(given)
        val inside = given["inside"].bool()
        if ("ids" in given) {
            val tokenizer = tokenizer(given["tokenizer"])
            val output = OutputText(tokenizer, tags) { tokenizer.tokens[it] ?: ByteArray(0) }
            assertSame(vector, "ids", expected["ids"], output.kept(given["ids"].ints(), inside))
        } else {
            val texts = given["texts"].list().map { it.str() }
            val stream = ThoughtStream(tags, inside)
            val parts = texts.map { stream.push(it) } + listOf(stream.end())
            val plain = parts.map { each -> each.map { listOf(it.text, it.isThought) } }
            assertSame(vector, "parts", expected["parts"], plain)
            val output = texts.joinToString("").toByteArray()
            assertSame(vector, "answer", expected["answer"], answerStart(output, tags, inside))
            assertSame(vector, "kept", expected["kept"], keptStart(output, tags, inside))
        }
    }
}

/** The rounds of a vector, cut where the output ends. */
private class GivenRounds(given: Json, private val text: StopText) : Rounds {
    private val bytes = given["bytes"].obj().entries.associate { it.key.toInt() to it.value.hex() }
    private val eosIds = given["eos_ids"].ints().toSet()
    private val left = given["rounds"].list().map { it.ints() }.iterator()

    override fun next(generation: Generation): Round {
        val emitted = cutAtStop(left.next(), eosIds, text) { bytes.getValue(it) }
        return Round(NO_IDS, NO_IDS, 0, emitted.tokens, 0, 0)
    }

    override fun pause(generation: Generation) = Unit

    override fun interrupt() = Unit
}
