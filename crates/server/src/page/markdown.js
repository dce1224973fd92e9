// Markdown to a tree of plain objects (see inline.js). HTML in the text stays text. The time is linear in the text.

import { node, parseInline } from './inline.js';

const DEPTH = 12;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const TASK = /^\[([ xX])\] /;

/**
 * The blocks of a text. A block that is followed by another whose first line is complete never changes when text is added.
 * @returns {{ start: number, node: object }[]}
 */
export function parseMarkdown(text) {
  let start = 0;
  const lines = text.split('\n').map((line) => {
    const taken = { text: clean(line), start };
    start += line.length + 1;
    return taken;
  });
  return blocks(lines, 0);
}

function clean(line) {
  if (line.endsWith('\r')) line = line.slice(0, -1);
  const indent = /^[ \t]*/.exec(line)[0];
  return indent.includes('\t') ? indent.replaceAll('\t', '    ') + line.slice(indent.length) : line;
}

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const { node, next } = block(lines, at, depth);
    found.push({ start: lines[at].start, node });
    at = next;
  }
  return found;
}

/** The block that begins at a line, and the line after it. */
function block(lines, at, depth) {
  const flat = fence(lines, at) ?? heading(lines, at) ?? rule(lines, at);
  if (flat) return flat;
  const nested = depth < DEPTH ? (quote(lines, at, depth) ?? list(lines, at, depth)) : undefined;
  return nested ?? table(lines, at) ?? paragraph(lines, at);
}

const isBlank = (line) => line.text.trim() === '';
const indentOf = (text) => /^ */.exec(text)[0].length;

function fence(lines, at) {
  const open = fenceMark(lines[at].text);
  if (!open || (open.mark[0] === '`' && open.rest.includes('`'))) return undefined;
  let end = at + 1;
  while (end < lines.length && !closes(lines[end].text, open.mark)) end++;
  const code = lines.slice(at + 1, end).map((l) => unindent(l.text, open.indent));
  const language = open.rest.trim().split(/\s/, 1)[0];
  return { node: { tag: 'pre', language, code: code.join('\n') }, next: end + 1 };
}

function fenceMark(text) {
  const found = /^ {0,3}(`{3,}|~{3,})/.exec(text);
  return found && { mark: found[1], indent: indentOf(text), rest: text.slice(found[0].length) };
}

function closes(text, mark) {
  const found = fenceMark(text);
  return found && found.mark[0] === mark[0] && found.mark.length >= mark.length && found.rest.trim() === '';
}

function unindent(text, columns) {
  return text.slice(Math.min(columns, indentOf(text)));
}

function heading(lines, at) {
  const found = /^ {0,3}(#{1,6})(?= |$)/.exec(lines[at].text);
  if (!found) return undefined;
  const text = lines[at].text.slice(found[0].length).trim();
  let end = text.length;
  while (text[end - 1] === '#') end--;
  const closed = end === 0 || text[end - 1] === ' ';
  const title = closed ? text.slice(0, end).trimEnd() : text;
  // The page has a first heading of its own.
  const level = Math.min(found[1].length + 2, 6);
  return { node: node(`h${level}`, parseInline(title)), next: at + 1 };
}

function rule(lines, at) {
  const marks = /^ {0,3}[-*_]/.test(lines[at].text) && lines[at].text.replaceAll(' ', '');
  return marks && /^(?:-{3,}|\*{3,}|_{3,})$/.test(marks) ? { node: node('hr'), next: at + 1 } : undefined;
}

function quote(lines, at, depth) {
  const inner = [];
  for (let i = at; i < lines.length; i++) {
    const found = /^ {0,3}> ?/.exec(lines[i].text);
    if (!found) break;
    inner.push({ text: lines[i].text.slice(found[0].length), start: lines[i].start });
  }
  if (inner.length === 0) return undefined;
  const children = blocks(inner, depth + 1).map((b) => b.node);
  return { node: node('blockquote', children), next: at + inner.length };
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at].text);
  if (!first || rule(lines, at)) return undefined;
  const kind = kindOf(first);
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next].text);
    if (!found || kindOf(found) !== kind || rule(lines, next)) break;
    const item = listItem(lines, next, found);
    items.push(item);
    next = item.next;
    loose ||= item.inner.some((l, i) => isBlank(l) && i < item.inner.length - 1);
    // A blank line before the next item.
    let after = next;
    while (after < lines.length && isBlank(lines[after])) after++;
    const goes = after > next && after < lines.length ? ITEM.exec(lines[after].text) : null;
    if (goes && kindOf(goes) === kind) {
      loose = true;
      next = after;
    }
  }
  const start = Number.parseInt(first[2], 10);
  const attributes = start > 1 ? { start: String(start) } : {};
  const children = items.map((item) => node('li', itemChildren(item.inner, loose, depth)));
  return { node: node(kind === '1' ? 'ol' : 'ul', children, attributes), next };
}

const kindOf = (found) => (/\d/.test(found[2]) ? '1' : found[2]);

/** An item's lines, without its mark and indentation: those that are indented, and those that go on with a paragraph. */
function listItem(lines, at, found) {
  const column = found[1].length;
  const offset = Math.min(found[0].length, column + found[2].length + 4);
  const inner = [{ text: lines[at].text.slice(found[0].length), start: lines[at].start }];
  let next = at + 1;
  let blanks = 0;
  for (; next + blanks < lines.length; ) {
    const line = lines[next + blanks];
    if (isBlank(line)) {
      blanks++;
      continue;
    }
    const indented = indentOf(line.text) >= column + 2;
    if (!indented && (blanks > 0 || begins(lines, next))) break;
    for (let i = 0; i < blanks; i++) inner.push({ text: '', start: lines[next + i].start });
    inner.push({ text: unindent(line.text, offset), start: line.start });
    next += blanks + 1;
    blanks = 0;
  }
  return { inner, next };
}

function itemChildren(inner, loose, depth) {
  const task = TASK.exec(inner[0].text);
  if (task) inner[0].text = `${task[1] === ' ' ? '☐' : '☑'} ${inner[0].text.slice(task[0].length)}`;
  const children = blocks(inner, depth + 1).map((b) => b.node);
  return loose ? children : children.flatMap((child) => (child.tag === 'p' ? child.children : [child]));
}

/** A row of names, a row of dashes, and rows. */
function table(lines, at) {
  if (at + 1 >= lines.length || !lines[at].text.includes('|')) return undefined;
  const aligned = alignments(lines[at + 1].text);
  const names = aligned && cells(lines[at].text);
  if (!aligned || names.length !== aligned.length) return undefined;
  let next = at + 2;
  while (next < lines.length && lines[next].text.includes('|')) next++;
  const row = (tag, texts) =>
    node('tr', texts.slice(0, aligned.length).map((text, i) => node(tag, parseInline(text), aligned[i])));
  const rows = lines.slice(at + 2, next).map((l) => row('td', cells(l.text)));
  const head = node('thead', [row('th', names)]);
  return { node: node('table', [head, node('tbody', rows)]), next };
}

function alignments(text) {
  if (!/^[ |:-]+$/.test(text) || !text.includes('-')) return undefined;
  const found = cells(text);
  if (!found.every((c) => /^:?-+:?$/.test(c))) return undefined;
  return found.map((c) => {
    if (!c.endsWith(':')) return {};
    return { class: c.startsWith(':') ? 'centre' : 'right' };
  });
}

/** The cells of a row; `\|` is a bar in a cell. */
function cells(text) {
  const found = [''];
  for (const part of text.trim().split(/(\\\||\|)/)) {
    if (part === '|') found.push('');
    else found[found.length - 1] += part === '\\|' ? '|' : part;
  }
  if (found[0].trim() === '') found.shift();
  if (found.length > 0 && found.at(-1).trim() === '') found.pop();
  return found.map((cell) => cell.trim());
}

function paragraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && !isBlank(lines[next]) && !begins(lines, next)) next++;
  const text = lines.slice(at, next).map((l) => l.text.trim());
  return { node: node('p', parseInline(text.join('\n'))), next };
}

/** Whether a line begins a block even right after a paragraph. */
function begins(lines, at) {
  const text = lines[at].text;
  if (/^ {0,3}(?:#{1,6}(?: |$)|>)/.test(text) || fenceMark(text) || rule(lines, at)) return true;
  const item = ITEM.exec(text);
  return Boolean(item && item[0].length < text.length) || table(lines, at) !== undefined;
}
