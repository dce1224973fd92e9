// The figures at the foot of the page: speed, context, memory, and the way prompts take.

import { element } from './dom.js';
import { bytes, number, prefill, seconds } from './format.js';

export class Meters {
  #root = document.querySelector('#meters');
  #values = new Map();

  constructor() {
    for (const name of ['Speed', 'First token', 'Context', 'KV pages', 'Memory', 'Prefill']) {
      const value = element('dd', {}, '–');
      this.#values.set(name, value);
      this.#root.append(element('div', {}, element('dt', {}, name), value));
    }
  }

  #set(name, text, title = '') {
    const value = this.#values.get(name);
    if (value.textContent !== text) value.replaceChildren(text);
    value.title = title;
  }

  /** A part of a whole, with a bar. */
  #setPart(name, part, whole, text, title = '') {
    const value = this.#values.get(name);
    let [bar, label] = value.children;
    if (!label) {
      [bar, label] = [element('meter', { min: '0', 'aria-label': name }), element('span')];
      value.replaceChildren(bar, label);
    }
    [bar.max, bar.high, bar.optimum, bar.value] = [whole, whole * 0.9, 0, part];
    label.textContent = text;
    value.title = title;
  }

  /** What is known of an answer. @param {number} context tokens that the model's context holds */
  showAnswer(stats, context) {
    this.#set('Speed', stats.rate ? `${number(stats.rate)} tok/s` : '–');
    this.#set('First token', stats.ttft ? seconds(stats.ttft) : '–');
    if (stats.path) this.#set('Prefill', prefill(stats), stats.fallbacks.join('\n'));
    const used = (stats.prompt ?? 0) + (stats.generated ?? 0);
    if (context) this.#setPart('Context', used, context, `${used} of ${context}`, 'Tokens of this conversation, and room for them');
  }

  /** What the server says of itself. */
  showServer(model, metrics) {
    const used = metrics.value('zinc_kv_pages_used') ?? 0;
    const kept = metrics.value('zinc_kv_pages_cached') ?? 0;
    const pages = Number(metrics.label('zinc_cache_config_info', 'num_gpu_blocks'));
    if (pages) this.#setPart('KV pages', used + kept, pages, `${used} + ${kept} of ${pages}`, 'In use, kept for prefixes, and all');
    const memory = Object.entries(model.meta.memory ?? {});
    const total = memory.reduce((sum, [, count]) => sum + count, 0);
    // The CPU executor has none of its own.
    this.#values.get('Memory').parentElement.hidden = total === 0;
    this.#set('Memory', bytes(total), memory.map(([use, count]) => `${use}: ${bytes(count)}`).join('\n'));
    const path = metrics.label('zinc_engine_info', 'prefill');
    if (path && this.#values.get('Prefill').textContent === '–') {
      this.#set('Prefill', prefill({ path, rows: Number(metrics.label('zinc_engine_info', 'prefill_rows')) }));
    }
  }
}
