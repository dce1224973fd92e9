// The server's API, at addresses relative to the page: it may stand behind a path of a proxy.

import { recall, remember } from './memory.js';
import { events } from './sse.js';

const KEY = 'zinc.key';
const RETRIES = 20;

/** What went wrong, in words for people. `status` is that of HTTP; 0 where no answer came. */
export class ApiError extends Error {
  constructor(message, status = 0, code = undefined) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const key = () => recall(KEY) ?? '';

export const setKey = (text) => remember(KEY, text);

async function ask(path, init = {}) {
  const headers = { ...init.headers };
  if (key()) headers.authorization = `Bearer ${key()}`;
  try {
    return await fetch(path, { ...init, headers });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new ApiError('The server cannot be reached. Is it still running?');
  }
}

async function failure(response) {
  if (response.status === 401) return new ApiError(key() ? 'The API key is wrong.' : 'The server asks for an API key.', 401);
  const body = await response.json().catch(() => ({}));
  const { message = `The server answered ${response.status}.`, code } = body.error ?? {};
  return new ApiError(message, response.status, code);
}

/** The model: `/v1/models` has one. */
export async function model() {
  const response = await ask('v1/models');
  if (!response.ok) throw await failure(response);
  return (await response.json()).data[0];
}

/** `ok`, `loading`, `draining`, `lost`, or `gone` where no answer comes. @returns {Promise<{status: string, reason?: string}>} */
export async function health() {
  try {
    return await (await ask('health')).json();
  } catch {
    return { status: 'gone' };
  }
}

/** The server's metrics. */
export async function metrics() {
  const response = await ask('metrics');
  return new Metrics(response.ok ? await response.text() : '');
}

/** Prometheus' text. */
export class Metrics {
  #values = new Map();

  constructor(text) {
    for (const line of text.split('\n')) {
      const found = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line);
      if (found && !this.#values.has(found[1])) this.#values.set(found[1], { labels: found[2] ?? '', value: Number(found[3]) });
    }
  }

  /** A number, or undefined. */
  value(name) {
    return this.#values.get(name)?.value;
  }

  /** A label of a metric that has one set of labels. */
  label(name, label) {
    const found = new RegExp(`(?:^|,)${label}="((?:\\\\.|[^"\\\\])*)"`).exec(this.#values.get(name)?.labels ?? '');
    return found?.[1].replace(/\\(.)/g, '$1');
  }
}

/**
 * The chunks of a streamed chat. A server that is busy or still loading is asked again when it says.
 * @param {object} body the request @param {AbortSignal} signal ends it @param {(seconds: number, why: string) => void} onWait
 */
export async function* chat(body, signal, onWait) {
  const response = await accepted(body, signal, onWait);
  let complete = false;
  try {
    for await (const data of events(response.body)) {
      complete ||= data === '[DONE]';
      if (data === '[DONE]') continue;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message, 500, chunk.error.code);
      yield chunk;
    }
  } catch (e) {
    if (e.name === 'AbortError' || e instanceof ApiError) throw e;
    throw new ApiError('The connection broke before the answer was complete.');
  }
  if (!complete) throw new ApiError('The connection ended before the answer was complete.');
}

async function accepted(body, signal, onWait) {
  const init = { method: 'POST', signal, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  for (let tries = 0; ; tries++) {
    const response = await ask('v1/chat/completions', init);
    if (response.ok) return response;
    const error = await failure(response);
    const seconds = Number(response.headers.get('retry-after'));
    const busy = (response.status === 429 || response.status === 503) && seconds > 0;
    if (!busy || tries >= RETRIES) throw error;
    for (let left = seconds; left > 0; left--) {
      onWait(left, error.message);
      await pause(1000, signal);
    }
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, milliseconds);
    signal.addEventListener('abort', stop, { once: true });
  });
}
