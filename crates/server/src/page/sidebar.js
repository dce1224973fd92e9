// The list of conversations.

import { button, element } from './dom.js';

export class Sidebar {
  #list = document.querySelector('#list');
  #nav = document.querySelector('#sidebar');
  #shade = document.querySelector('#shade');
  #opener = document.querySelector('#open-list');
  #first = document.querySelector('#new');

  /** @param {{ open(c): void, rename(c, title): void, remove(c): void, download(c): void }} actions */
  constructor(actions) {
    this.actions = actions;
    this.#opener.addEventListener('click', () => this.toggle(true));
    this.#shade.addEventListener('click', () => this.toggle(false));
    document.querySelector('#close-list').addEventListener('click', () => this.toggle(false));
    this.#nav.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.isDrawn) this.toggle(false);
    });
  }

  /** On a narrow screen the list is drawn over the page. */
  get isDrawn() {
    return this.#nav.classList.contains('drawn');
  }

  toggle(drawn) {
    if (drawn === this.isDrawn) return;
    this.#nav.classList.toggle('drawn', drawn);
    this.#shade.hidden = !drawn;
    this.#opener.setAttribute('aria-expanded', String(drawn));
    document.querySelector('main').inert = drawn;
    (drawn ? this.#first : this.#opener).focus();
  }

  /** Goes to the list, which is drawn first where it is hidden. */
  reach() {
    if (this.#opener.checkVisibility()) this.toggle(true);
    else this.#first.focus();
  }

  show(conversations, current) {
    // Not while a title is being written: it is shown when that is done.
    if (this.#list.querySelector('input')) return;
    this.#list.replaceChildren(...conversations.map((c) => this.#item(c, c.id === current.id)));
  }

  #item(conversation, isCurrent) {
    const { open, download } = this.actions;
    const title = button(conversation.title, () => open(conversation), {
      class: 'title',
      'aria-current': isCurrent && 'page',
    });
    const item = element('li', {}, title);
    const menu = element(
      'details',
      { class: 'menu' },
      element('summary', { 'aria-label': `What to do with “${conversation.title}”` }, '⋯'),
      element(
        'div',
        {},
        button('Rename', () => this.#rename(item, conversation)),
        button('Export', () => download(conversation)),
        this.#removal(conversation),
      ),
    );
    menu.addEventListener('focusout', (event) => {
      if (!menu.contains(event.relatedTarget)) menu.open = false;
    });
    item.append(menu);
    return item;
  }

  /** Deleting takes a second click: it cannot be undone. */
  #removal(conversation) {
    const made = button('Delete', () => {
      if (made.classList.contains('danger')) return this.actions.remove(conversation);
      made.classList.add('danger');
      made.textContent = 'Really delete';
      return undefined;
    });
    return made;
  }

  #rename(item, conversation) {
    const field = element('input', { 'aria-label': 'Title', value: conversation.title, maxlength: '120' });
    let done = false;
    const end = (save) => {
      if (done) return;
      done = true;
      const title = field.value.trim();
      field.remove();
      this.actions.rename(conversation, save && title ? title : conversation.title);
    };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') end(true);
      if (event.key === 'Escape') {
        event.stopPropagation();
        end(false);
      }
    });
    field.addEventListener('blur', () => end(true));
    item.replaceChildren(field);
    field.select();
  }
}
