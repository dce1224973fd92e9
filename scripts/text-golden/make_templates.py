"""Golden text of chat templates, rendered by jinja2 in the environment that `transformers` gives them.

    v/bin/python scripts/text-golden/make_templates.py MODELS crates/text/tests/golden

Renders every conversation of conversations.json with the templates in templates/, those in the tokenizer_config.json files
and those in two GGUF files under MODELS, and writes rendered.json: {template: {conversation: text, or null if refused}}.
"""

import datetime
import json
import pathlib
import sys

import gguf
import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# The models that scripts/fetch-models.sh brings for the tests, if they have a template.
FILES = ["smollm2-135m-instruct-q4_1.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"]
NOW = datetime.datetime(2024, 2, 9, 12, 34, 56)


class Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}`: renders what is inside."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def templates(models, golden):
    """(name, source, bos, eos) of every template."""
    for path in sorted((golden / "templates").glob("*.jinja")):
        yield path.name, path.read_text(encoding="utf-8"), "<s>", "</s>"
    for path in sorted(models.glob("tokenizers/*/tokenizer_config.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        if config.get("chat_template"):
            yield path.parent.name, config["chat_template"], config.get("bos_token") or "", config.get("eos_token") or ""
    for file in FILES:
        fields = gguf.GGUFReader(models / file).fields
        tokens = fields["tokenizer.ggml.tokens"]
        name = lambda key: tokens.contents(int(fields[key].contents())) if key in fields else ""
        source = fields["tokenizer.chat_template"].contents()
        yield file, source, name("tokenizer.ggml.bos_token_id"), name("tokenizer.ggml.eos_token_id")


def main(models, golden):
    conversations = json.loads((golden / "conversations.json").read_text(encoding="utf-8"))
    rendered = {}
    for name, source, bos, eos in templates(models, golden):
        template = environment().from_string(source)
        results = rendered[name] = {}
        for key, conversation in conversations.items():
            variables = {"tools": None, "documents": None, "bos_token": bos, "eos_token": eos, **conversation}
            try:
                results[key] = template.render(**variables)
            except Exception as e:
                print(f"{name} refuses {key}: {e!r}")
                results[key] = None
    (golden / "rendered.json").write_text(json.dumps(rendered, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
