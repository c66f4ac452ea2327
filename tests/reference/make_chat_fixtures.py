#!/usr/bin/env python3
"""Prompts of chats by jinja2, set as transformers sets it: the reference of engine/chat.

    pip install jinja2==3.1.6
    tests/reference/make_chat_fixtures.py            # writes tests/reference/chat/*.json

The templates are written here, to the formats that the models' pages describe and with the parts of Jinja that published
templates use: what each format is, is a fact; none of their text is taken over. `mixed` and `parts` have what the others lack.
"""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 9, 14, 5, 6)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


SPECIAL = {
    "llama": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": ""},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "unk_token": "", "pad_token": ""},
    "chatml": {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "", "pad_token": "<|im_end|>"},
    "gemma": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "falcon": {"bos_token": "", "eos_token": "<|endoftext|>", "unk_token": "", "pad_token": ""},
}

ALTERNATE = """{%- for m in rest -%}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('roles have to alternate: user, assistant, user, ...') -}}
{%- endif -%}
{%- endfor -%}
"""

TEMPLATES = {
    "chatml": ("chatml", """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""),
    "smollm2": ("chatml", """{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nA helpful assistant of a small kind<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""),
    "zephyr": ("llama", """{% for m in messages %}
{% if m['role'] == 'user' %}
{{ '<|user|>\\n' + m['content'] + eos_token }}
{% elif m['role'] == 'system' %}
{{ '<|system|>\\n' + m['content'] + eos_token }}
{% elif m['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + m['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""),
    "llama2": ("llama", """{%- if messages[0]['role'] == 'system' -%}
{%- set rest = messages[1:] -%}
{%- set system = messages[0]['content'] -%}
{%- else -%}
{%- set rest = messages -%}
{%- set system = false -%}
{%- endif -%}
""" + ALTERNATE + """{%- for m in rest -%}
{%- if loop.index0 == 0 and system != false -%}
{%- set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] -%}
{%- else -%}
{%- set text = m['content'] -%}
{%- endif -%}
{%- if m['role'] == 'user' -%}
{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}
{%- elif m['role'] == 'assistant' -%}
{{ ' ' + text.strip() + ' ' + eos_token }}
{%- endif -%}
{%- endfor -%}"""),
    "llama3": ("llama3", """{% set answers = messages %}{% for m in answers %}{% set text = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set text = bos_token + text %}{% endif %}{{ text }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""),
    "llama3.1": ("llama3", """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system's turn is taken out, as it has its own place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}

{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system }}
{{- "<|eot_id|>" }}
{%- for m in messages %}
    {%- if not (m.role == 'ipython' or m.role == 'tool' or 'tool_calls' in m) %}
        {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n'+ m['content'] | trim + '<|eot_id|>' }}
    {%- elif m.role == "tool" or m.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if m.content is mapping or m.content is iterable %}
            {{- m.content | tojson }}
        {%- else %}
            {{- m.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""),
    "llama3.2": ("llama3", """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system }}
{{- "<|eot_id|>" }}
{%- for m in messages %}
    {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n'+ m['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""),
    "qwen2.5": ("chatml", """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nA helpful assistant<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for m in messages %}
    {%- if (m.role == "user") or (m.role == "system" and not loop.first) or (m.role == "assistant" and not m.tool_calls) %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}
    {%- elif m.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- m.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""),
    "qwen3": ("chatml", """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(looks=true, last_question=messages|length - 1) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.looks and m.role == "user" and m.content is string and not(m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}
        {%- set ns.looks = false %}
        {%- set ns.last_question = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.content is string %}
        {%- set content = m.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (m.role == "user") or (m.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif m.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if m.reasoning_content is string %}
            {%- set thoughts = m.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_question %}
            {%- if loop.last or (not loop.last and thoughts) %}
                {{- '<|im_start|>' + m.role + '\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + m.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + m.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""),
    "mistral": ("llama", """{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for m in rest %}
    {%- if not (m.role == "tool" or m.role == "tool_results" or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles have to alternate: user, assistant, user, ...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in rest %}
    {%- if m["role"] == "user" %}
        {%- if loop.last and system is defined %}
            {{- "[INST] " + system + "\\n\\n" + m["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + m["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif m["role"] == "assistant" %}
        {{- " " + m["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("only user, system and assistant have turns here") }}
    {%- endif %}
{%- endfor %}
"""),
    "mixtral": ("llama", """{{ bos_token }}{% set rest = messages %}""" + ALTERNATE.replace("\n", "") + """{% for m in rest %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token}}{% else %}{{ raise_exception('only user and assistant have turns here') }}{% endif %}{% endfor %}"""),
    "gemma2": ("gemma", """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('a system has no turn here') }}{% endif %}{% for m in messages %}{% if (m['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""),
    "gemma3": ("gemma", """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for m in turns -%}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("turns have to alternate") }}
    {%- endif -%}
    {%- if (m['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = m['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if m['content'] is string -%}
        {{ m['content'] | trim }}
    {%- elif m['content'] is iterable -%}
        {%- for item in m['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("content of no known kind") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""),
    "falcon": ("falcon", """{% for m in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}{% if m['role'] == 'system' %}{{ 'System: ' + m['content'] }}{% elif m['role'] == 'user' %}{{ 'User: ' + m['content'] }}{% elif m['role'] == 'assistant' %}{{ 'Falcon: ' + m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\\n' + 'Falcon:' }}{% endif %}"""),
    "mixed": ("llama", """{%- macro turn(role, text='nothing', end=eos_token) -%}
<{{ role|upper }}>{{ text }}{{ end }}
{%- endmacro -%}
{%- set shown = [] -%}
{%- for m in messages if m.role != 'system' -%}
{%- if loop.index > 4 %}{% break %}{% endif -%}
{%- if m.content == 'skip' %}{% continue %}{% endif -%}
{{ turn(m.role, text=m.content|replace('a', 'A')) }} {{ loop.revindex }}/{{ loop.length }}{{ ' last' if loop.last }}
{% else -%}
nobody
{%- endfor %}
{% set block %}
  kept {{ messages|map(attribute='role')|join('+') }}
{% endset -%}
[{{ block|trim }}]
{{ messages|selectattr('role', 'equalto', 'user')|list|length }} of {{ messages | length }};
{{- messages|rejectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ') }}
{{ [1, 2.5, 'x', none, true, {'a': [1, {'b': 'ü"'}]}]|tojson }}
{{ {'k': 'v', 'list': [1, 2], 'empty': {}}|tojson(indent=2) }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 * 3 + 1 }} {{ 'ab' * 3 }} {{ 1 < 2 <= 2 }} {{ 'a' ~ 1 ~ none }}
{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-2] }} {{ [1,2,3,4][-2:] }} {{ range(3)|list }} {{ 'x' in 'xyz' and 3 not in [1, 2] }}
{{ unknown|default('fallback') }} {{ ''|default('empty', true) }} {{ unknown is defined }} {{ none is none }}
{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in {'b': 1, 'a': 2}|dictsort %}{{ k }}={{ v }};{% endfor %}

{{ ' padded '|trim }}|{{ 'one two'.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'Title me'.title() }}|{{ 'x\\ty'|length }}|{{ ['q', "it's"] }}
{# a comment #}
  {%+ if true %}kept blanks{% endif +%}

{{ (messages[0].content or 'none')|capitalize }} {{ messages[-1]['role'] }} {{ messages[0].missing is undefined }} {{ 5 is odd }} {{ 6 is divisibleby 3 }}
{%- generation_marker if generation_marker is defined else '' %}
""".replace("{%- generation_marker if generation_marker is defined else '' %}", "{{- marker if marker is defined else '' }}")),
}

CHATS = {
    "one turn": [{"role": "user", "content": "Hello there"}],
    "blanks": [{"role": "user", "content": "  two\n lines \n"}],
    "system": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
    "several turns": [
        {"role": "user", "content": "A question"},
        {"role": "assistant", "content": " An answer "},
        {"role": "user", "content": "And ünïcode 🙂 <|x|>?"},
    ],
    "system and turns": [
        {"role": "system", "content": "You are a clerk.\nAnswer in words."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\ntwo"},
        {"role": "user", "content": "three"},
        {"role": "assistant", "content": "four"},
        {"role": "user", "content": "skip"},
    ],
    "ends with an answer": [
        {"role": "user", "content": "Say a word"},
        {"role": "assistant", "content": "<think>a thought</think>word"},
    ],
    "out of turn": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}],
    "a stranger": [{"role": "user", "content": "one"}, {"role": "critic", "content": "two"}],
}


def main():
    folder = pathlib.Path(__file__).parent / "chat"
    env = environment()
    for name, (special, text) in TEMPLATES.items():
        cases = []
        template = env.from_string(text)
        for chat, messages in CHATS.items():
            for generation in (True, False):
                case = {"name": chat, "messages": messages, "add_generation_prompt": generation}
                variables = {"enable_thinking": False} if name == "qwen3" and chat == "system" else {}
                if variables:
                    case["variables"] = variables
                try:
                    case["prompt"] = template.render(
                        messages=messages, add_generation_prompt=generation, tools=None, documents=None,
                        **SPECIAL[special], **variables)
                except jinja2.exceptions.TemplateError as error:
                    case["error"] = str(error)
                cases.append(case)
        data = {"template": text, "special": SPECIAL[special], "cases": cases}
        (folder / f"{name}.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


main()
