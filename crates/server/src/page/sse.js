// Server-sent events out of a response that arrives in pieces cut anywhere.

/** Takes pieces of text and gives the data of the events that are complete. */
export class EventParser {
  #line = ''; // The line that has no end yet.
  #data = []; // Data lines of the event that has no end yet.
  #afterReturn = false; // The last piece ended with \r: a \n that follows belongs to it.

  /** @returns {string[]} */
  push(text) {
    if (this.#afterReturn && text.startsWith('\n')) text = text.slice(1);
    else if (text === '') return [];
    this.#afterReturn = text.endsWith('\r');
    const events = [];
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = this.#line + lines[0];
    this.#line = lines.pop();
    for (const line of lines) this.#take(line, events);
    return events;
  }

  #take(line, events) {
    if (line === '') {
      if (this.#data.length > 0) events.push(this.#data.join('\n'));
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    // A line that begins with a colon is a comment; other fields are not used here.
    if (field === 'data') this.#data.push(value);
  }
}

/** The data of a response's events, as they come. @param {ReadableStream<Uint8Array>} body */
export async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
