"""Chat templates in the styles of published models, shortened: roles, system prompts, thoughts."""

# ruff: noqa: E501

from __future__ import annotations

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Without a system prompt it writes its own.
DEFAULT_SYSTEM = (
    "{% if messages[0].role == 'system' %}<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n"
    "{% else %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}"
    "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
# The system prompt, which is not trimmed, stands in the first message, which is.
GEMMA3 = (
    "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}"
    "{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{%- set loop_messages = messages[1:] -%}"
    "{%- else -%}{%- set first_user_prefix = '' -%}{%- set loop_messages = messages -%}{%- endif -%}"
    "{%- for message in loop_messages -%}{%- if (message['role'] == 'assistant') -%}{%- set role = 'model' -%}"
    "{%- else -%}{%- set role = message['role'] -%}{%- endif -%}"
    "{{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else '') }}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
# A date stands in the system prompt's place, also where none is given.
LLAMA31 = (
    "{{- bos_token }}{%- if messages[0]['role'] == 'system' %}"
    "{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}"
    "{%- else %}{%- set system_message = '' %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n\n' }}"
    "{{- system_message }}{{- '<|eot_id|>' }}{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
PHI3 = (
    "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
# Answers begin with a space, also empty ones, and are trimmed; messages are not.
MISTRAL3 = (
    "{{- bos_token }}{%- for message in messages %}{%- if message['role'] == 'user' %}"
    "{{- '[INST] ' + message['content'] + '[/INST]' }}{%- elif message['role'] == 'assistant' %}"
    "{{- ' ' + message['content']|trim + eos_token}}{%- else %}"
    "{{- raise_exception('Only user and assistant roles are supported') }}{%- endif %}{%- endfor %}"
)
# The system prompt stands before the last message, wherever that is.
SYSTEM_LAST = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}"
    "{% else %}{% set rest = messages %}{% endif %}{{ bos_token }}{% for m in rest %}"
    "{% if m.role == 'user' %}[INST] {% if loop.last and system is defined %}{{ system }}\n\n{% endif %}"
    "{{ m.content }}[/INST]{% else %} {{ m.content | trim }}{{ eos_token }}{% endif %}{% endfor %}"
)
# Thoughts of earlier answers are left out, with the line feeds behind them.
QWEN3 = (
    "{% if messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}"
    "{% endif %}{% set ns = namespace(last=messages|length - 1) %}{% for message in messages %}"
    "{% if message.content is string %}{% set content = message.content %}{% else %}{% set content = '' %}"
    "{% endif %}{% if message.role == 'user' %}"
    "{{ '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}"
    "{% elif message.role == 'assistant' %}{% if '</think>' in content %}"
    "{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{{ '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}"
    "{% endif %}{% endif %}"
)
# The template itself opens the thought; thoughts of earlier answers are cut off at the close tag.
OPENED = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% endif %}"
    "{{ bos_token }}{{ system }}{% for m in messages %}{% if m.role == 'user' %}<|User|>{{ m.content }}"
    "{% elif m.role == 'assistant' %}{% set content = m.content %}{% if '</think>' in content %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}<|Assistant|>{{ content }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
)
# Tools stand in the system prompt, several calls in tags of their own, results in a turn of the user.
QWEN_TOOLS = (
    "{% set said = messages[0].content if messages[0].role == 'system' else 'You help.' %}"
    "<|im_start|>system\n{{ said }}{% if tools %}\n\nTools:\n<tools>{% for tool in tools %}\n{{ tool | tojson }}"
    "{% endfor %}\n</tools>\nCall as <tool_call>\n{...}\n</tool_call>{% endif %}<|im_end|>\n"
    "{% for m in messages %}{% if m.role == 'tool' %}"
    "{% if messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
    "\n<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
    "{% elif m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls %}{% if m.content or not loop.first %}{{ '\n' }}{% endif %}<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# Tools stand in the first message, one call is a whole answer, a result has its own role and is quoted.
LLAMA_TOOLS = (
    "{% macro turn(role, text) %}<|start_header_id|>{{ role }}<|end_header_id|>\n\n{{ text }}<|eot_id|>{% endmacro %}"
    "{{ bos_token }}{% set rest = messages %}{% set said = '' %}{% if messages[0].role == 'system' %}"
    "{% set said = messages[0].content | trim %}{% set rest = messages[1:] %}{% endif %}"
    "{{ turn('system', ('Environment: ipython\n' if tools else '') + 'Today\n\n' + said) }}"
    "{% for m in rest %}{% if m.role == 'tool' %}{{ turn('ipython', m.content | tojson) }}"
    "{% elif m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call') }}{% endif %}"
    "{{ turn('assistant', '{\"name\": \"' + m.tool_calls[0].function.name + '\", \"parameters\": '"
    " + m.tool_calls[0].function.arguments | tojson + '}') }}"
    "{% elif loop.first and tools %}<|start_header_id|>user<|end_header_id|>\n\nCall one of these:\n\n"
    "{% for tool in tools %}{{ tool | tojson(indent=4) }}{{ '\n\n' }}{% endfor %}{{ m.content | trim }}<|eot_id|>"
    "{% else %}{{ turn(m.role, m.content | trim) }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
# The tools move to the last message of the user; calls and results have ids; the form of Mistral 7B v0.3.
MISTRAL_TOOLS = (
    "{%- set asked = messages | selectattr('role', 'equalto', 'user') | list %}{%- set ns = namespace(n=0) %}"
    "{%- for m in messages if m.role in ('user', 'assistant') and not m.tool_calls %}"
    "{%- if (m.role == 'user') != (ns.n % 2 == 0) %}{{- raise_exception('roles must alternate') }}{%- endif %}"
    "{%- set ns.n = ns.n + 1 %}{%- endfor %}{{- bos_token }}{%- for m in messages %}{%- if m.role == 'user' %}"
    "{%- if tools is not none and m == asked[-1] %}{{- '[AVAILABLE_TOOLS] [' }}{%- for tool in tools %}"
    '{{- \'{"type": "function", "function": {\' }}{%- for key, value in tool.function.items() %}'
    "{%- if value is string %}{{- '\"' + key + '\": \"' + value + '\"' }}"
    "{%- else %}{{- '\"' + key + '\": ' + value | tojson }}{%- endif %}{{- ', ' if not loop.last }}{%- endfor %}"
    "{{- '}}' }}{{- ', ' if not loop.last else ']' }}{%- endfor %}{{- '[/AVAILABLE_TOOLS]' }}{%- endif %}"
    "{{- '[INST] ' + m.content + '[/INST]' }}{%- elif m.tool_calls %}{{- '[TOOL_CALLS] [' }}"
    "{%- for call in m.tool_calls %}{%- if call.id is not defined or call.id | length != 9 %}"
    "{{- raise_exception('an id has 9 characters') }}{%- endif %}"
    "{{- (call.function | tojson)[:-1] + ', \"id\": \"' + call.id + '\"}' }}{{- ', ' if not loop.last }}{%- endfor %}"
    "{{- ']' + eos_token }}{%- elif m.role == 'assistant' %}{{- ' ' + m.content | trim + eos_token }}"
    "{%- elif m.role == 'tool' %}{%- if m.tool_call_id is not defined or m.tool_call_id | length != 9 %}"
    "{{- raise_exception('an id has 9 characters') }}{%- endif %}"
    "{{- '[TOOL_RESULTS] {\"content\": ' + m.content | string + ', \"call_id\": \"' + m.tool_call_id + '\"}[/TOOL_RESULTS]' }}"
    "{%- else %}{{- raise_exception('only user, assistant and tool') }}{%- endif %}{%- endfor %}"
)
# Mistral Nemo writes the same without spaces behind the tags.
NEMO_TOOLS = (
    MISTRAL_TOOLS.replace("] [", "][")
    .replace("[INST] ", "[INST]")
    .replace("] {", "]{")
    .replace("' ' + m", "m")
)
# The tools stand before the last message, wherever that is.
TOOLS_LAST = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{% if tools and loop.last %}[AVAILABLE_TOOLS] "
    "{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}[INST] {{ m.content }}[/INST]"
    "{% elif m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content }}[/TOOL_RESULTS]"
    "{% elif m.tool_calls %}[TOOL_CALLS] {{ m.tool_calls | tojson }}{{ eos_token }}"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
