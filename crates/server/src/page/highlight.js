// Code to coloured pieces, by one regular expression a language. It is exact enough to read by; it is no parser.

import { LANGUAGES } from './languages.js';

const NUMBER = '\\b(?:0[xX][\\da-fA-F_]+|0[bB][01_]+|\\d[\\d_]*(?:\\.\\d[\\d_]*)?(?:[eE][+-]?\\d+)?)\\w*';
const WORD = '[A-Za-z_$][\\w$]*';
const LONGEST = 200_000;
const expressions = new Map();

/**
 * The pieces of a code, which together are the code. `kind` is comment, string, number, keyword, function, type, added, removed, or
 * empty; a language that is not known gives one piece.
 * @returns {{ kind: string, text: string }[]}
 */
export function highlight(code, name) {
  const language = LANGUAGES.get(name.toLowerCase());
  if (!language || code.length > LONGEST) return [{ kind: '', text: code }];
  return language.lines ? changes(code) : tokens(code, language);
}

function tokens(code, language) {
  const pieces = [];
  let plain = 0; // Where text without a colour began.
  for (const found of code.matchAll(expressionOf(language))) {
    const kind = kindOf(found, code, language);
    if (kind === '') continue;
    if (found.index > plain) pieces.push({ kind: '', text: code.slice(plain, found.index) });
    pieces.push({ kind, text: found[0] });
    plain = found.index + found[0].length;
  }
  if (plain < code.length) pieces.push({ kind: '', text: code.slice(plain) });
  return pieces;
}

function expressionOf(language) {
  let made = expressions.get(language);
  if (!made) {
    const word = language.tags ? '</?[A-Za-z][\\w:-]*|/?>' : (language.word ?? WORD);
    const groups = [language.comments.join('|'), language.strings.join('|'), NUMBER, word];
    made = new RegExp(groups.map((g) => `(${g})`).join('|'), 'g');
    expressions.set(language, made);
  }
  return made;
}

function kindOf(found, code, language) {
  const [text, comment, string, number] = found;
  if (comment !== undefined) return 'comment';
  if (string !== undefined) return 'string';
  if (number !== undefined) return 'number';
  if (language.tags || language.keywords.has(language.caseless ? text.toLowerCase() : text)) return 'keyword';
  if (code[found.index + text.length] === '(') return 'function';
  return /^[A-Z]\w*[a-z]/.test(text) ? 'type' : '';
}

/** The lines of a diff. */
function changes(code) {
  return code.split(/(?<=\n)/).map((text) => {
    if (/^(?:@@|diff |index |\+\+\+|---)/.test(text)) return { kind: 'comment', text };
    if (text.startsWith('+')) return { kind: 'added', text };
    return { kind: text.startsWith('-') ? 'removed' : '', text };
  });
}
