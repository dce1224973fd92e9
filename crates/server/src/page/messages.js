// The messages of a conversation, and what can be done with each.

import { MarkdownView, button, copyButton, element } from './dom.js';
import { number, prefill, seconds } from './format.js';

const NEAR = 60; // Pixels from the end within which the view follows an answer.

const UNFINISHED = 'The answer is not complete: the page was closed.';
const FINISHES = { stop: '', length: 'The answer reached its limit of tokens or of the context.', stopped: 'Stopped.' };

const HINTS = { context_length_exceeded: 'Edit an earlier message to go on from there, or begin a new conversation.' };

export class Messages {
  #list = document.querySelector('#messages');
  #scroller = document.querySelector('#scroller');
  #welcome = document.querySelector('#welcome');
  #views = new Map();

  /** @param {{ edit(message, text): void, again(message): void, settings(): void }} actions */
  constructor(actions) {
    this.actions = actions;
  }

  /** Shows a conversation. `generating` is the message that is being written, if it is one of these. */
  show(messages, generating) {
    this.#views.clear();
    this.#list.replaceChildren();
    this.#welcome.hidden = messages.length > 0;
    for (const message of messages) this.add(message, message === generating);
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  add(message, generating = false) {
    this.#welcome.hidden = true;
    const view = message.role === 'user' ? new UserView(message, this.actions) : new AnswerView(message, this.actions);
    this.#views.set(message, view);
    this.#list.append(view.element);
    view.update(generating, '');
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  /** Shows what is new of a message, if it is shown. */
  update(message, generating, waiting) {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    this.#views.get(message)?.update(generating, waiting);
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  /** Opens the editor of the last message of the user. */
  editLast() {
    [...this.#views.values()].findLast((view) => view instanceof UserView)?.edit();
  }
}

class UserView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.body = element('div', { class: 'said' }, message.content);
    this.tools = element('div', { class: 'tools' }, button('Edit', () => this.edit(), { class: 'changes' }), copyButton(() => message.content));
    this.element = element('li', { class: 'user' }, element('h3', { class: 'hidden' }, 'You'), this.body, this.tools);
  }

  update() {}

  edit() {
    const field = element('textarea', { 'aria-label': 'Edit the message', rows: '3' });
    field.value = this.message.content;
    const close = () => {
      this.element.replaceChildren(...parts);
      this.tools.firstChild.focus();
    };
    const send = () => field.value.trim() && this.actions.edit(this.message, field.value.trim());
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === 'Escape') {
        event.stopPropagation();
        close();
      }
    });
    const parts = [...this.element.childNodes];
    const note = element('span', { class: 'small' }, 'What follows is answered anew.');
    const tools = element('div', { class: 'row end' }, note, button('Cancel', close), button('Send', send, { class: 'primary' }));
    this.element.replaceChildren(element('div', { class: 'editor' }, field, tools));
    field.focus();
  }
}

class AnswerView {
  #text = new MarkdownView();
  #reasoning = new MarkdownView();
  #summary = element('summary', {}, 'Reasoning');
  #folded = element('details', { class: 'reasoning', hidden: true }, this.#summary, this.#reasoning.element);
  #state = element('p', { class: 'state', hidden: true });
  #figures = element('p', { class: 'figures small' });

  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.tools = element(
      'div',
      { class: 'tools' },
      copyButton(() => message.content),
      button('Answer again', () => actions.again(message), { class: 'changes again' }),
      this.#figures,
    );
    const name = element('h3', { class: 'hidden' }, 'The model');
    this.element = element('li', { class: 'answer' }, name, this.#folded, this.#text.element, this.#state, this.tools);
  }

  update(generating, waiting) {
    const { content, reasoning, stats } = this.message;
    this.element.setAttribute('aria-busy', String(generating));
    this.element.classList.toggle('generating', generating);
    this.#folded.hidden = !reasoning;
    // Text that nobody sees is built when it is unfolded.
    if (reasoning && this.#folded.open) this.#reasoning.update(reasoning);
    this.#folded.ontoggle = () => this.#folded.open && this.#reasoning.update(this.message.reasoning);
    this.#summary.textContent = generating && reasoning && !content ? 'Reasoning…' : 'Reasoning';
    this.#text.update(content);
    this.tools.hidden = generating || !(content || reasoning);
    this.#figures.textContent = figures(stats ?? {});
    this.#figures.title = (stats?.fallbacks ?? []).join('\n');
    this.#showState(generating, waiting);
  }

  #showState(generating, waiting) {
    const { error, finish } = this.message;
    const parts = [];
    if (waiting) parts.push(waiting);
    else if (error) {
      parts.push(element('span', { class: 'message' }, error.message), HINTS[error.code] ?? '');
      if (error.status === 401) parts.push(button('Settings', this.actions.settings));
      parts.push(button('Try again', () => this.actions.again(this.message), { class: 'changes again' }));
    } else if (!generating) parts.push(FINISHES[finish ?? ''] ?? UNFINISHED);
    this.#state.replaceChildren(...parts);
    this.#state.hidden = this.#state.textContent === '';
    this.#state.classList.toggle('error', Boolean(error));
  }
}

/** The figures of an answer in a line. */
export function figures(stats) {
  const parts = [];
  if (stats.rate) parts.push(`${number(stats.rate)} tok/s`);
  if (stats.ttft) parts.push(`first token ${seconds(stats.ttft)}`);
  if (stats.generated) parts.push(`${stats.generated} tokens`);
  if (stats.computed !== undefined) {
    const known = stats.cached ? ` (+${stats.cached} known)` : '';
    parts.push(`prompt ${stats.computed}${known}${stats.promptRate ? ` at ${number(stats.promptRate)} tok/s` : ''}`);
  }
  if (stats.path) parts.push(`prefill ${prefill(stats)}`);
  return parts.join(' · ');
}
