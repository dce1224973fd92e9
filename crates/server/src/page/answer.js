// An answer as it is generated: a request, the chunks of its stream, and the figures.

import { chat } from './api.js';

/** Settings that go into a request by their own name; empty ones are left to the server. */
export const NUMBERS = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];

/** The body of a request for the next answer of a conversation. */
export function requestOf({ settings, messages }) {
  const body = { messages: [], stream: true, stream_options: { include_usage: true } };
  if (settings.system) body.messages.push({ role: 'system', content: settings.system });
  for (const { role, content, reasoning } of messages) {
    body.messages.push(reasoning ? { role, content, reasoning_content: reasoning } : { role, content });
  }
  for (const name of NUMBERS) if (Number.isFinite(settings[name])) body[name] = settings[name];
  if (settings.reasoning_effort) body.reasoning_effort = settings.reasoning_effort;
  return body;
}

/** Generates the answer of a conversation into `message`, which is not one of its messages yet. */
export class Answer {
  #abort = new AbortController();
  #began = performance.now();
  #first = 0; // When the first token came.
  #tokens = 0;

  constructor(conversation, message) {
    this.conversation = conversation;
    this.message = message;
    this.waiting = ''; // Why the server does not answer yet.
  }

  stop() {
    this.#abort.abort();
  }

  /** Runs to the end, which may be an error or a stop: `message` says which. @param {() => void} changed something is new to show */
  async run(changed) {
    const { message } = this;
    try {
      const onWait = (seconds, why) => {
        this.waiting = `${why}; asking again in ${seconds} s`;
        changed();
      };
      for await (const chunk of chat(requestOf(this.conversation), this.#abort.signal, onWait)) {
        this.waiting = '';
        this.#take(chunk);
        changed();
      }
    } catch (e) {
      if (this.#abort.signal.aborted) message.finish = 'stopped';
      else message.error = { message: e.message, status: e.status, code: e.code };
    }
    this.waiting = '';
  }

  #take({ choices: [choice], usage, timings }) {
    const { message } = this;
    const { content, reasoning_content: reasoning } = choice?.delta ?? {};
    if (content) message.content += content;
    if (reasoning) message.reasoning = (message.reasoning ?? '') + reasoning;
    if (content || reasoning) this.#count();
    if (choice?.finish_reason) message.finish = choice.finish_reason;
    if (usage) Object.assign(message.stats, { prompt: usage.prompt_tokens, generated: usage.completion_tokens });
    if (timings) Object.assign(message.stats, measured(timings));
  }

  /** Until the server says, a delta is taken for a token. */
  #count() {
    const now = performance.now();
    this.#tokens++;
    this.#first ||= now;
    const { stats } = this.message;
    stats.ttft = this.#first - this.#began;
    stats.generated = this.#tokens;
    if (now > this.#first) stats.rate = ((this.#tokens - 1) * 1000) / (now - this.#first);
  }
}

function measured(timings) {
  return {
    rate: timings.predicted_per_second,
    promptRate: timings.prompt_per_second,
    computed: timings.prompt_n,
    cached: timings.cache_n,
    queue: timings.queue_ms,
    path: timings.prefill_path,
    rows: timings.prefill_rows,
    fallbacks: (timings.prefill_fallbacks ?? []).map((f) => `${f.label ?? f.op}: ${f.reason}`),
  };
}
