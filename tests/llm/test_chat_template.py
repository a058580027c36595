"""Chat templates: what models' templates use works; what a hostile one tries ends in one error."""

from __future__ import annotations

import time
import tracemalloc

import irc_compiler as irc
import pytest

pytest.importorskip("jinja2", reason="not run: needs jinja2")

from irc_compiler.llm.chat_template import ChatTemplate

MESSAGES = [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi <b>"}]


def test_features_of_models_templates() -> None:
    """Loops with state, filters, methods, namespaces, macros, break; text is not escaped."""
    source = (
        "{{- bos_token }}{%- set ns = namespace(n=0) %}"
        "{%- for m in messages if m.role != 'tool' %}{%- set ns.n = ns.n + 1 %}"
        "{{- '<|' ~ m['role'] ~ '|>' + m.content | trim + eos_token.upper() }}"
        "{%- if loop.last %}{% break %}{% endif %}{%- endfor %}"
        "{%- if tools is none and add_generation_prompt %}{{ '[' ~ ns.n ~ ']' }}{% endif %}"
        "{{- messages[0].content.strip().split(' ') | last | replace('.', '!') }}"
        "{{- {'a': [1, 'é']} | tojson }}"
    )
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    expected = '<s><|system|>Be brief.</S><|user|>Hi <b></S>[2]brief!{"a": [1, "é"]}'
    assert template.render(MESSAGES) == expected
    assert "[2]" not in template.render(MESSAGES, add_generation_prompt=False)
    assert ChatTemplate("{{ think }}").render(MESSAGES, think=True) == "True"


ENDLESS = "does not end"
REFUSED = "refuses"
BROKEN = "broken"
HOSTILE = [
    ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", ENDLESS),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", REFUSED),
    ("{{ range(10**9) | list | length }}", REFUSED),
    ("{{ 'a' * 10**12 }}", ENDLESS),
    ("{{ 10 ** (10 ** 10) }}", ENDLESS),
    ("{% set n=namespace(x='aaaa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
     ENDLESS),
    ("{% set n=namespace(x='aaaa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
     ENDLESS),
    ("{% set n=namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
     "{{ n.x }}", ENDLESS),
    ("{{ ('a' * 999999).replace('a', 'b' * 999999) }}", ENDLESS),
    ("{{ ('a' * 3000) | map('replace', 'a', 'b' * 9999999) | list | length }}", ENDLESS),
    ("{{ range(100000) | map('string') | join('x' * 10000) }}", ENDLESS),
    ("{{ [range(100000) | list] * 300 }}", ENDLESS),
    ("{{ '%1000000000d' % 1 }}", REFUSED),
    ("{{ '{:>1000000000}'.format(1) }}", REFUSED),
    ("{{ 'a'.center(10**12) }}", REFUSED),
    ("{{ 'a' | center(10**9) }}", BROKEN),
    ("{{ ''.__class__.__mro__[1].__subclasses__() }}", REFUSED),
    ("{{ messages | attr('__class__') }}", BROKEN),
    ("{{ self.__init__.__globals__ }}", REFUSED),
    ("{{ raise_exception.__globals__['os'] }}", REFUSED),
    ("{{ messages.append(1) }}", REFUSED),
    ("{{ messages[0].update({'role': 'x'}) }}", REFUSED),
    ("{% include '/etc/passwd' %}", REFUSED),
    ("{% import 'os' as os %}", REFUSED),
    ("{{ raise_exception('only users') }}", REFUSED),
    ("{{ 1 / 0 }}", REFUSED),
    ("{{ unclosed", BROKEN),
    ("{% for %}", BROKEN),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("source", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_templates(source: str, message: str) -> None:
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(irc.Error) as caught:
            text = ChatTemplate(source).render(MESSAGES)
            assert "<class" not in text and "globals" not in text
            pytest.fail(text[:200])
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert message in str(caught.value)
    assert time.process_time() - start < 30  # not a measurement: endless is hours
    assert most < 256 << 20


def test_the_messages_stay_as_they_are() -> None:
    """Nothing of a template's work reaches the caller's messages or another thread's tracing."""
    import sys

    before = sys.gettrace()
    ChatTemplate("{% for m in messages %}{{ m.pop('role') }}{% endfor %}{{ x }}").source  # noqa: B018
    with pytest.raises(irc.Error):
        ChatTemplate("{% for m in messages %}{{ m.pop('role') }}{% endfor %}").render(MESSAGES)
    assert MESSAGES[0]["role"] == "system" and sys.gettrace() is before
