// Elements of the page. Text goes in as text nodes alone: there is no place where text could become markup.

import { highlight } from './highlight.js';
import { parseMarkdown } from './markdown.js';

/** An element. An attribute that begins with `on` is a listener; one that is undefined or false is left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

/** A button with a word on it. */
export function button(label, onclick, attributes = {}) {
  return element('button', { type: 'button', onclick, ...attributes }, label);
}

/** Copies a text; also where the browser gives no clipboard to pages that came without encryption. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element('textarea', { class: 'hidden', readonly: true });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
}

/** A button that copies and says so. */
export function copyButton(text) {
  const made = button('Copy', async () => {
    await copy(text());
    made.textContent = 'Copied';
    setTimeout(() => (made.textContent = 'Copy'), 1500);
  });
  return made;
}

function build(node) {
  if (typeof node === 'string') return document.createTextNode(node);
  if (node.tag === 'pre') return codeBlock(node);
  const made = element(node.tag, node.attributes, ...node.children.map(build));
  // A wide table scrolls by itself, also by keys.
  return node.tag === 'table' ? element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table' }, made) : made;
}

function codeBlock({ language, code }) {
  const pieces = highlight(code, language).map(({ kind, text }) =>
    kind ? element('span', { class: `token-${kind}` }, text) : text,
  );
  const bar = element('div', { class: 'code-bar' }, element('span', {}, language || 'text'), copyButton(() => code));
  const label = language ? `Code, ${language}` : 'Code';
  const body = element('pre', { tabindex: '0', role: 'region', 'aria-label': label }, element('code', {}, ...pieces));
  return element('div', { class: 'code' }, bar, body);
}

/** An element that shows a growing Markdown text. What cannot change any more is built once. */
export class MarkdownView {
  #text = '';
  #settled = 0; // Where the blocks that may still change begin, in the text
  #kept = 0; // and among the element's children.

  constructor() {
    this.element = element('div', { class: 'markdown' });
  }

  update(text) {
    if (text === this.#text) return;
    if (!text.startsWith(this.#text)) this.#settled = this.#kept = 0;
    this.#text = text;
    const from = this.#settled;
    const blocks = parseMarkdown(text.slice(from));
    while (this.element.childNodes.length > this.#kept) this.element.lastChild.remove();
    this.element.append(...blocks.map((b) => build(b.node)));
    // The last block that begins before the line that is being written.
    const line = text.lastIndexOf('\n') + 1 - from;
    const last = blocks.findLastIndex((b) => b.start < line);
    if (last > 0) {
      this.#settled = from + blocks[last].start;
      this.#kept += last;
    }
  }
}
