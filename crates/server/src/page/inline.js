// What is inside a line of Markdown: emphasis, code, links. The result is a tree of plain objects, so that no text can become markup:
//   node = string | { tag, attributes, children }
// The time is linear in the text: nesting is bounded, and no search runs over the same text twice.

const DEPTH = 24;
const PLAIN = /[^\\`*_~[\]<$!\nhH]+/y;
const ADDRESS = /https?:\/\/[^\s<>"`|\\]+/iy;
const TARGET = /^\(\s?(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*))(?: +"[^"\n]*")? ?\)/;
const ANGLE = /^<(?:(br) ?\/?|((?:https?:\/\/|mailto:)[^\s<>]+))>/i;
const TARGET_LENGTH = 2048;
const TAGS = { '*': 'em', '_': 'em', '**': 'strong', '__': 'strong', '~~': 'del' };
const FORMULAS = { '\\(': '\\)', '\\[': '\\]', '$$': '$$' };

export const node = (tag, children = [], attributes = {}) => ({ tag, attributes, children });

/** The address, if it is one that a link may have: other schemes could run scripts. */
export function safeAddress(address) {
  return /^(?:https?:\/\/|mailto:)[^\s]/i.test(address) ? address : undefined;
}

/** @returns {Array} the nodes of a text */
export function parseInline(text) {
  return new Inline(text).parse();
}

class Inline {
  #at = 0;
  // Open marks, the whole text at the bottom. A frame whose end never comes is dissolved into its parent.
  #frames = [{ mark: '', children: [] }];
  #found = new Map(); // Where the next occurrence of a text is, for texts that were looked for.
  #ticks; // Starts of the runs of backticks by length, the next one last.

  constructor(text) {
    this.text = text;
  }

  parse() {
    while (this.#at < this.text.length) this.#step();
    while (this.#frames.length > 1) this.#dissolve();
    return this.#frames[0].children;
  }

  #step() {
    PLAIN.lastIndex = this.#at;
    const plain = PLAIN.exec(this.text);
    if (plain) return this.#literal(plain[0]);
    const c = this.text[this.#at];
    if (c === '\n') return this.#add(node('br'), 1);
    if (c === '`') return this.#code();
    if (c === '*' || c === '_' || c === '~') return this.#emphasis(c);
    if (c === '[' || c === '!') return this.#open();
    if (c === ']') return this.#close();
    if (c === '<') return this.#angle();
    if (c === '\\' || c === '$') return this.#escape();
    return this.#address();
  }

  #add(child, length) {
    this.#frames.at(-1).children.push(child);
    this.#at += length;
  }

  #literal(text) {
    this.#append(this.#frames.at(-1).children, text);
    this.#at += text.length;
  }

  #append(children, text) {
    if (typeof children.at(-1) === 'string') children[children.length - 1] += text;
    else children.push(text);
  }

  #next(what, from) {
    const known = this.#found.get(what);
    if (known !== undefined && (known < 0 || known >= from)) return known;
    const found = this.text.indexOf(what, from);
    this.#found.set(what, found);
    return found;
  }

  /** The mark of the uppermost frame becomes text again. */
  #dissolve() {
    const frame = this.#frames.pop();
    const parent = this.#frames.at(-1).children;
    this.#append(parent, frame.mark);
    for (const child of frame.children) {
      if (typeof child === 'string') this.#append(parent, child);
      else parent.push(child);
    }
  }

  /** Ends the frame at this place of the stack; marks above it that were not ended become text. */
  #end(place) {
    while (this.#frames.length > place + 1) this.#dissolve();
    return this.#frames.pop();
  }

  /** A span between runs of equally many backticks. */
  #code() {
    this.#ticks ??= ticks(this.text);
    const run = /`+/y;
    run.lastIndex = this.#at;
    const length = run.exec(this.text)[0].length;
    const starts = this.#ticks.get(length);
    while (starts.length > 0 && starts.at(-1) <= this.#at) starts.pop();
    const end = starts.at(-1);
    if (end === undefined) return this.#literal('`'.repeat(length));
    let code = this.text.slice(this.#at + length, end).replaceAll('\n', ' ');
    if (code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '') code = code.slice(1, -1);
    this.#add(node('code', [code]), end + length - this.#at);
  }

  #emphasis(c) {
    let end = this.#at;
    while (this.text[end] === c) end++;
    const before = this.text[this.#at - 1] ?? ' ';
    const after = this.text[end] ?? ' ';
    let left = end - this.#at;
    // Within a word an underscore is part of it.
    const closes = /\S/.test(before) && !(c === '_' && isWord(after));
    const opens = /\S/.test(after) && !(c === '_' && isWord(before));
    while (left > 0) {
      const place = closes ? this.#opened(c, left) : -1;
      const length = c === '~' ? 2 : Math.min(left, 2);
      if (place > 0) {
        const frame = this.#end(place);
        this.#add(node(TAGS[frame.mark], frame.children), frame.mark.length);
        left -= frame.mark.length;
      } else if (opens && left >= length && this.#frames.length < DEPTH) {
        this.#frames.push({ mark: c.repeat(length), children: [] });
        this.#at += length;
        left -= length;
      } else {
        this.#literal(c.repeat(left));
        left = 0;
      }
    }
  }

  /** The place of the uppermost open mark of this character that is at most so long; 0 or less where there is none. */
  #opened(c, length) {
    let place = this.#frames.length - 1;
    while (place > 0 && !(this.#frames[place].mark[0] === c && this.#frames[place].mark.length <= length)) place--;
    return place;
  }

  #open() {
    const mark = this.text.startsWith('![', this.#at) ? '![' : this.text[this.#at];
    if (mark === '!' || this.#frames.length >= DEPTH) return this.#literal(mark);
    this.#frames.push({ mark, children: [], holdsLink: false });
    this.#at += mark.length;
  }

  /** The end of a link's text. Pictures are shown as links: the page loads nothing from elsewhere. */
  #close() {
    let place = this.#frames.length - 1;
    while (place > 0 && !this.#frames[place].mark.endsWith('[')) place--;
    if (place <= 0) return this.#literal(']');
    const rest = this.text.slice(this.#at + 1, this.#at + 1 + TARGET_LENGTH);
    const target = this.#frames[place].holdsLink ? null : TARGET.exec(rest);
    const address = target && safeAddress(target[1] ?? target[2]);
    if (!address) {
      while (this.#frames.length > place) this.#dissolve();
      return this.#literal(']');
    }
    const frame = this.#end(place);
    for (const outer of this.#frames) outer.holdsLink = true;
    const label = frame.children.length > 0 ? frame.children : [address];
    this.#add(link(address, label), 1 + target[0].length);
  }

  #angle() {
    const found = ANGLE.exec(this.text.slice(this.#at, this.#at + TARGET_LENGTH));
    if (!found) return this.#literal('<');
    const [all, lineBreak, address] = found;
    this.#add(lineBreak ? node('br') : link(address, [address]), all.length);
  }

  /** A formula, which is shown as it is written, or an escaped character. */
  #escape() {
    const two = this.text.slice(this.#at, this.#at + 2);
    const end = two in FORMULAS ? this.#next(FORMULAS[two], this.#at + 2) : -1;
    if (end >= 0) {
      const formula = this.text.slice(this.#at + 2, end).trim();
      return this.#add(node('code', [formula], { class: 'formula' }), end + 2 - this.#at);
    }
    if (two === '\\\n') return this.#add(node('br'), 2);
    if (/^\\[!-/:-@[-`{-~]$/.test(two) && !(two in FORMULAS)) {
      this.#append(this.#frames.at(-1).children, two[1]);
      this.#at += 2;
      return undefined;
    }
    return this.#literal(two[0]);
  }

  /** An address that stands in the text. */
  #address() {
    ADDRESS.lastIndex = this.#at;
    const free = !isWord(this.text[this.#at - 1] ?? ' ') && !this.#frames.some((f) => f.mark.endsWith('['));
    const found = free ? ADDRESS.exec(this.text) : null;
    if (!found) return this.#literal(this.text[this.#at]);
    let length = found[0].length;
    const ends = found[0].includes('(') ? '.,;:!?\'*_~]' : '.,;:!?\'*_~])';
    while (ends.includes(found[0][length - 1])) length--;
    const address = found[0].slice(0, length);
    this.#add(link(address, [address]), length);
  }
}

function link(address, children) {
  return node('a', children, { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' });
}

function isWord(c) {
  return /[\p{L}\p{N}]/u.test(c);
}

function ticks(text) {
  const runs = new Map();
  for (const found of text.matchAll(/`+/g)) {
    const length = found[0].length;
    if (!runs.has(length)) runs.set(length, []);
    runs.get(length).push(found.index);
  }
  for (const starts of runs.values()) starts.reverse();
  return runs;
}
