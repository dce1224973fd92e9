// The npm package `openai` against `zinc serve`: node test_clients.mjs BASE_URL KEY
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [base, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = { model, messages: [{ role: 'user', content: 'Say hello in one short sentence.' }], max_tokens: 16, temperature: 0 };

const whole = await client.chat.completions.create(ask);
let text = '';
for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
  text += chunk.choices[0]?.delta?.content ?? '';
}
assert.equal(text, whole.choices[0].message.content);

const parameters = { type: 'object', properties: { n: { type: 'integer', minimum: 0, maximum: 9 } }, required: ['n'], additionalProperties: false };
const runner = client.chat.completions.stream({
  ...ask, max_tokens: 100, tools: [{ type: 'function', function: { name: 'f', parameters } }], tool_choice: { type: 'function', function: { name: 'f' } },
});
const call = (await runner.finalMessage()).tool_calls[0];
assert.equal(call.function.name, 'f');
assert.ok(Number.isInteger(JSON.parse(call.function.arguments).n));

// A client that leaves in the middle.
const left = await client.chat.completions.create({ ...ask, max_tokens: 200, stream: true });
for await (const _ of left) {
  left.controller.abort();
  break;
}

const response = await client.responses.create({ model, input: 'Say hello.', max_output_tokens: 12, temperature: 0 });
assert.ok(response.output_text.length > 0);
console.log('npm openai ok');
