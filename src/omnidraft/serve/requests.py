"""What a request asks for: the bodies of /v1/chat/completions and /v1/completions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from omnidraft.runtime.disk.json_fields import array, boolean, integer, mapping, number, text
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Mode
from omnidraft.serve.api_error import ApiError
from omnidraft.serve.request_fields import RequestFields, mappings, texts
from omnidraft.serve.request_tools import check_results, read_calls, read_tools_of

HARMLESS = ("user", "metadata", "safety_identifier", "prompt_cache_key")
EXACT: tuple[str, ...] = tuple(mode for mode in get_args(Mode) if mode != "paper")


@dataclass(frozen=True)
class ModelRequest:
    """A request, read.

    Attributes:
        prompt: messages, each with `role` and `content`; or for a completion text or ids, without a template.
        config: settings of the answer.
        schema: the JSON Schema that the answer has to fit; None for any text.
        stream: whether the answer is sent while it is written.
        with_usage: whether a stream ends with its counts.
        tools: that the answer may call, in OpenAI's form.
        tool_choice: "auto", "none", "required", or the name of the tool to call.
        most_calls: of tools in the answer; None for any number.
        length_field: by which the client set the number of tokens.
    """

    prompt: Sequence[Mapping[str, Any]] | str | Sequence[int]
    config: GenerationConfig
    schema: Mapping[str, Any] | None = None
    stream: bool = False
    with_usage: bool = False
    length_field: str = "max_tokens"
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    most_calls: int | None = None
    is_chat: bool = field(default=True, kw_only=True)


def read_chat(body: object, model: str, usual: GenerationConfig) -> ModelRequest:
    """The body of /v1/chat/completions.

    Args:
        model: the name of the model that is served.
        usual: the settings of what a request leaves open.

    Raises:
        ApiError: naming the field.
    """
    fields = RequestFields(body)
    messages = [
        _message(each, f"messages.{i}.") for i, each in enumerate(fields.needed("messages", mappings))
    ]
    check_results(messages)
    fields.only("modalities", ["text"])
    fields.only("top_logprobs", 0)
    schema = _schema(fields.read("response_format", mapping, None))
    length = "max_tokens" if fields.has("max_tokens") else "max_completion_tokens"
    if length == "max_tokens" and fields.has("max_completion_tokens"):
        raise fields.refusal(length, "max_tokens and max_completion_tokens are both there; give one of them")
    tools, choice = read_tools_of(fields)
    if schema is not None and tools and choice != "none":
        raise fields.refusal(
            "response_format",
            'response_format and tools: its answer calls none; leave one out, or set tool_choice to "none"',
        )
    most = None if fields.read("parallel_tool_calls", boolean, True) else 1
    asked = ModelRequest(
        messages, usual, schema, length_field=length, tools=tools, tool_choice=choice, most_calls=most
    )
    return _settings(fields, asked, model, logprobs=fields.flag("logprobs"))


def read_completion(body: object, model: str, usual: GenerationConfig) -> ModelRequest:
    """The body of /v1/completions; see `read_chat`."""
    fields = RequestFields(body)
    prompt = fields.needed("prompt", _raw_prompt)
    fields.only("echo", False)
    fields.only("best_of", 1)
    fields.only("suffix", "")
    fields.only("logprobs", 0)
    return _settings(
        fields, ModelRequest(prompt, usual, is_chat=False), model, logprobs=fields.has("logprobs")
    )


def _settings(fields: RequestFields, asked: ModelRequest, model: str, *, logprobs: bool) -> ModelRequest:
    """The fields that both bodies have."""
    _check_model(fields.read("model", text, model), model)
    fields.only("n", 1)
    fields.only("logit_bias", {})
    fields.only("frequency_penalty", 0, 0.0)
    fields.only("presence_penalty", 0, 0.0)
    fields.only("service_tier", "auto", "default")
    fields.only("store", False)
    fields.accept(*HARMLESS)
    stream, usage = fields.flag("stream"), False
    options = fields.read("stream_options", mapping, None)
    if options is not None:
        if not stream:
            raise fields.refusal("stream_options", "stream_options needs stream: true; leave it out")
        inner = RequestFields(options, "stream_options.")
        usage = inner.flag("include_usage")
        inner.accept("include_obfuscation")
        inner.refuse_others()
    usual = asked.config
    config = replace(
        usual,
        max_new_tokens=fields.read(asked.length_field, lambda each: integer(each, 1), usual.max_new_tokens),
        temperature=fields.read("temperature", number, usual.temperature),
        top_p=fields.read("top_p", number, usual.top_p),
        top_k=fields.read("top_k", lambda each: integer(each, 0), usual.top_k),
        min_p=fields.read("min_p", number, usual.min_p),
        repetition_penalty=fields.read("repetition_penalty", number, usual.repetition_penalty),
        seed=fields.read("seed", lambda each: integer(each, 0, (1 << 64) - 1), usual.seed),
        stop=fields.read("stop", texts, usual.stop),
        mode=fields.read("mode", _mode, usual.mode),
        logprobs=logprobs,
    )
    fields.refuse_others()
    return replace(asked, config=config, stream=stream, with_usage=usage)


def _mode(value: object) -> Any:
    if value not in EXACT:
        raise ValueError(f"{value!r:.80} is not one of {', '.join(EXACT)}")
    return value


def _check_model(name: str, model: str) -> None:
    if name != model:
        raise ApiError(
            404,
            f"there is no model {name:.80}; this server has {model}",
            param="model",
            code="model_not_found",
        )


def _message(value: dict[str, Any], where: str) -> dict[str, Any]:
    """One message as `read_messages` takes it, which checks the order of messages."""
    fields = RequestFields(value, where)
    role = fields.needed("role", text)
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise fields.refusal(
            "role", f"{where}role: {role!r:.40} is not system, developer, user, assistant or tool"
        )
    message: dict[str, Any] = {"role": "system" if role == "developer" else role}
    if role == "assistant":
        fields.accept("reasoning_content")  # templates leave earlier thoughts out
        fields.only("annotations", [])
        calls = read_calls(fields)
        message |= {"tool_calls": calls} if calls else {}
    if role == "tool":
        message["tool_call_id"] = fields.needed("tool_call_id", text)
    has_calls = "tool_calls" in message
    message["content"] = (
        fields.read("content", _content, "") if has_calls else fields.needed("content", _content)
    )
    fields.refuse_others()
    return message


def _content(value: object) -> str:
    """Text, or parts that are text."""
    if isinstance(value, str):
        return text(value)
    parts = []
    for each in array(value):
        kind = mapping(each).get("type")
        if kind != "text" or each.keys() - {"type", "text"}:
            raise ValueError(f"a part of type {kind!r:.40} is not supported; give parts of type text alone")
        parts.append(text(each.get("text")))
    return "".join(parts)


def _raw_prompt(value: object) -> str | list[int]:
    if isinstance(value, str):
        return text(value)
    items = array(value)
    if len(items) == 1 and isinstance(items[0], str | list):
        return _raw_prompt(items[0])
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in items):
        raise ValueError("several prompts are not supported; send one text, or one list of token ids")
    return items


def _schema(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema of a response format."""
    if value is None:
        return None
    fields = RequestFields(value, "response_format.")
    kind = fields.needed("type", text)
    fields.accept("type")
    schema: dict[str, Any] | None = None
    if kind == "json_schema":
        inner = RequestFields(fields.needed("json_schema", mapping), "response_format.json_schema.")
        inner.accept("name", "description")
        inner.read("strict", boolean, True)  # an answer fits the schema in either case
        schema = inner.needed("schema", mapping)
        inner.refuse_others()
    elif kind == "json_object":
        schema = {"type": "object"}
    elif kind != "text":
        raise fields.refusal(
            "type", f"response_format.type: {kind!r:.40} is not text, json_object or json_schema"
        )
    fields.refuse_others()
    return schema
