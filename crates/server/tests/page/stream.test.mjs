// Server-sent events and metrics.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '../../src/page/api.js';
import { EventParser, events } from '../../src/page/sse.js';

const TEXT = 'data: {"a": "é🙂"}\n\n: comment\n\ndata: one\r\ndata:two\r\n\r\nevent: x\rdata:  three\r\rdata\n\nid: 1\n\ndata: [DONE]\n\ndata: cut';
const EVENTS = ['{"a": "é🙂"}', 'one\ntwo', ' three', '', '[DONE]'];

test('events cut anywhere', () => {
  for (let first = 0; first <= TEXT.length; first++) {
    for (let second = first; second <= TEXT.length; second++) {
      const parser = new EventParser();
      const pieces = [TEXT.slice(0, first), TEXT.slice(first, second), TEXT.slice(second)];
      assert.deepEqual(pieces.flatMap((p) => parser.push(p)), EVENTS, `${first} ${second}`);
    }
  }
  const parser = new EventParser();
  assert.deepEqual([...TEXT].flatMap((c) => parser.push(c)), EVENTS);
});

test('bytes cut inside characters', async () => {
  const bytes = new TextEncoder().encode(TEXT);
  const body = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      controller.close();
    },
  });
  const found = [];
  for await (const data of events(body)) found.push(data);
  assert.deepEqual(found, EVENTS);
});

test('a line of many pieces takes linear time', () => {
  const parser = new EventParser();
  const began = performance.now();
  parser.push('data: ');
  for (let i = 0; i < 200_000; i++) parser.push('0123456789');
  const [data] = parser.push('\n\n');
  assert.equal(data.length, 2_000_000);
  assert.ok(performance.now() - began < 4000);
});

test('metrics', () => {
  const metrics = new Metrics(
    '# HELP x\nzinc_kv_pages_used 12\nzinc_requests_total{route="/",status="200"} 3\nzinc_engine_info{backend="cpu",device="a \\"b\\", c",prefill="batched"} 1\n# EOF\n',
  );
  assert.equal(metrics.value('zinc_kv_pages_used'), 12);
  assert.equal(metrics.value('absent'), undefined);
  assert.equal(metrics.label('zinc_engine_info', 'device'), 'a "b", c');
  assert.equal(metrics.label('zinc_engine_info', 'prefill'), 'batched');
  assert.equal(metrics.label('absent', 'x'), undefined);
});
