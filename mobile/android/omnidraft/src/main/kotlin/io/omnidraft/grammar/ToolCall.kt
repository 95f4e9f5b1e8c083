package io.omnidraft // an app imports one package

/**
 * A call of a tool.
 *
 * @property name of the tool.
 * @property arguments by name; valid by the tool's schema. A value is a String, Boolean, Long, BigInteger, Double, List, Map
 *   or null.
 * @property id by which the result names the call, where the model writes one; else empty.
 */
public class ToolCall(public val name: String, public val arguments: Map<String, Any?>, public val id: String = "")
