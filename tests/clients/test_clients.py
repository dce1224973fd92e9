"""Stock Python clients against `zinc serve`: python test_clients.py BASE_URL KEY CLIENT…, of openai, anthropic and litellm."""

import json
import sys

import anthropic
import jsonschema
import openai

BASE, KEY, *CLIENTS = sys.argv[1:]
client = openai.OpenAI(base_url=f"{BASE}/v1", api_key=KEY, max_retries=0)
claude = anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0)
MODEL = client.models.list().data[0].id
HELLO = [{"role": "user", "content": "Say hello in one short sentence."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome", "Oslo"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["city", "days", "tags"],
    "additionalProperties": False,
    "$defs": {"tag": {"enum": ["sun", "sea", "snow"]}},
}
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather in a city", "parameters": WEATHER}}
ONE = {"type": "function", "function": {"name": "weather"}}


def chat(**more):
    return client.chat.completions.create(**{"model": MODEL, "temperature": 0, "max_tokens": 24, "messages": HELLO, **more})


def openai_chat():
    whole = chat(logprobs=True, top_logprobs=3)
    text = whole.choices[0].message.content
    assert text and whole.choices[0].finish_reason in ("stop", "length"), whole
    assert all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in whole.choices[0].logprobs.content)
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    parts = chat(messages=[{"role": "user", "content": [{"type": "text", "text": HELLO[0]["content"]}]}])
    assert parts.choices[0].message.content == text
    several = chat(n=2, seed=5, stop=["never"], presence_penalty=0.1, frequency_penalty=0.1, logit_bias={"5": -1})
    assert [c.index for c in several.choices] == [0, 1]


def openai_schema_and_tools():
    form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}}
    jsonschema.validate(json.loads(chat(response_format=form, max_tokens=200).choices[0].message.content), SCHEMA)
    called = chat(tools=[TOOL], tool_choice=ONE, max_tokens=100).choices[0]
    assert called.finish_reason == "tool_calls", called
    call = called.message.tool_calls[0]
    jsonschema.validate(json.loads(call.function.arguments), WEATHER)
    messages = HELLO + [called.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert chat(messages=messages, tools=[TOOL], tool_choice="none").choices[0].message.content is not None
    with client.chat.completions.stream(model=MODEL, messages=HELLO, tools=[TOOL], tool_choice=ONE, max_tokens=100) as stream:
        final = stream.get_final_completion().choices[0].message.tool_calls
    assert len(final) == 1 and final[0].function.name == "weather"


def openai_others():
    done = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=8, temperature=0, logprobs=2, echo=True)
    assert done.choices[0].text.startswith("Once upon a time")
    answer = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=200, temperature=0)
    assert answer.output_text, answer
    with client.responses.stream(model=MODEL, input="Say hello.", max_output_tokens=200, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == answer.output_text
    function = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
    forced = client.responses.create(model=MODEL, input="x", tools=[function], tool_choice={"type": "function", "name": "weather"})
    assert forced.output[0].type == "function_call"


def openai_embeddings():
    vectors = client.embeddings.create(model=MODEL, input=["one", "two"])
    assert len(vectors.data) == 2 and len(vectors.data[0].embedding) > 100


def openai_errors():
    for wrong, error in [({"messages": []}, openai.BadRequestError), ({"messages": HELLO * 3000}, openai.BadRequestError)]:
        try:
            chat(**wrong)
            raise AssertionError("must be refused")
        except error as e:
            assert e.body["message"]
    try:
        openai.OpenAI(base_url=f"{BASE}/v1", api_key="wrong", max_retries=0).models.list()
        raise AssertionError("must be refused")
    except openai.AuthenticationError:
        pass


def anthropic_messages():
    ask = {"model": MODEL, "max_tokens": 24, "messages": HELLO, "system": "Be brief.", "extra_body": {"temperature": 0}}
    whole = claude.messages.create(**ask)
    assert whole.content[0].text and whole.usage.output_tokens
    with claude.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        assert stream.get_final_message().stop_reason == whole.stop_reason
    counted = claude.messages.count_tokens(model=MODEL, messages=HELLO, system="Be brief.")
    assert counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    tool = {"name": "weather", "input_schema": WEATHER}
    called = claude.messages.create(**{**ask, "max_tokens": 100}, tools=[tool], tool_choice={"type": "tool", "name": "weather"})
    assert called.stop_reason == "tool_use"
    jsonschema.validate(called.content[-1].input, WEATHER)


def litellm_chat():
    import litellm  # larger than the others together, and not always asked for

    ask = {"model": f"openai/{MODEL}", "api_base": f"{BASE}/v1", "api_key": KEY, "messages": HELLO, "max_tokens": 12, "temperature": 0}
    text = litellm.completion(**ask).choices[0].message.content
    assert text == "".join(c.choices[0].delta.content or "" for c in litellm.completion(**ask, stream=True) if c.choices)


for test in [openai_chat, openai_schema_and_tools, openai_others, openai_embeddings, openai_errors, anthropic_messages, litellm_chat]:
    if test.__name__.split("_")[0] in CLIENTS:
        test()
        print(f"{test.__name__} ok", flush=True)
