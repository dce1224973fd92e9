// Markdown: what it means, that text never becomes markup, and that time is linear. Run with `node --test`.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseInline, safeAddress } from '../../src/page/inline.js';
import { parseMarkdown } from '../../src/page/markdown.js';

/** A tree in one line: `p("a" em("b"))`. */
function show(node) {
  if (typeof node === 'string') return JSON.stringify(node);
  if (node.tag === 'pre') return `pre:${node.language}(${JSON.stringify(node.code)})`;
  const attributes = Object.entries(node.attributes).filter(([k]) => k !== 'rel' && k !== 'target');
  const shown = attributes.map(([k, v]) => `[${k}=${v}]`).join('');
  return `${node.tag}${shown}(${node.children.map(show).join(' ')})`;
}
const blocks = (text) => parseMarkdown(text).map((b) => show(b.node)).join(' ');
const inline = (text) => parseInline(text).map(show).join(' ');

/** Every node of a text. */
function* nodes(text) {
  const open = parseMarkdown(text).map((b) => b.node);
  while (open.length > 0) {
    const node = open.pop();
    yield node;
    open.push(...(node.children ?? []));
  }
}

test('emphasis', () => {
  const cases = [
    ['a *b* c', '"a " em("b") " c"'],
    ['**a**b', 'strong("a") "b"'],
    ['***a***', 'strong(em("a"))'],
    ['**a *b* c**', 'strong("a " em("b") " c")'],
    ['~~old~~ new', 'del("old") " new"'],
    ['_a_ snake_case_name', 'em("a") " snake_case_name"'],
    ['2 * 3 * 4', '"2 * 3 * 4"'],
    ['**not ended', '"**not ended"'],
    ['*a **b*', 'em("a **b")'],
    ['a\\*b\\*', '"a*b*"'],
    ['**重要**です', 'strong("重要") "です"'],
    ['one\ntwo', '"one" br() "two"'],
    ['a<br>b', '"a" br() "b"'],
  ];
  for (const [text, tree] of cases) assert.equal(inline(text), tree, text);
});

test('code and formulas', () => {
  const cases = [
    ['`a*b*`', 'code("a*b*")'],
    ['`` a`b ``', 'code("a`b")'],
    ['`not ended', '"`not ended"'],
    ['``a` b', '"``a` b"'],
    ['\\(x_1 * y_1\\)', 'code[class=formula]("x_1 * y_1")'],
    ['$$a_b$$ costs $5', 'code[class=formula]("a_b") " costs $5"'],
  ];
  for (const [text, tree] of cases) assert.equal(inline(text), tree, text);
});

test('links', () => {
  const cases = [
    ['[a *b*](https://x.org/y_(z) "title")', 'a[href=https://x.org/y_(z)]("a " em("b"))'],
    ['![picture](https://x.org/p.png)', 'a[href=https://x.org/p.png]("picture")'],
    ['see https://x.org/a_b_c.', '"see " a[href=https://x.org/a_b_c]("https://x.org/a_b_c") "."'],
    ['(https://x.org/a)', '"(" a[href=https://x.org/a]("https://x.org/a") ")"'],
    ['<mailto:a@b.org>', 'a[href=mailto:a@b.org]("mailto:a@b.org")'],
    ['array[0](1)', '"array[0](1)"'],
    ['[[a](https://x.org)](https://y.org)', '"[" a[href=https://x.org]("a") "](" a[href=https://y.org]("https://y.org") ")"'],
    ['Chthonic', '"Chthonic"'],
  ];
  for (const [text, tree] of cases) assert.equal(inline(text), tree, text);
});

test('blocks', () => {
  const cases = [
    ['# One\ntext', 'h3("One") p("text")'],
    ['####### seven', 'p("####### seven")'],
    ['## a ##', 'h4("a")'],
    ['a\n\n---\n\nb', 'p("a") hr() p("b")'],
    ['> a\n> > b', 'blockquote(p("a") blockquote(p("b")))'],
    ['- a\n- b\n  - c\n- d', 'ul(li("a") li("b" ul(li("c"))) li("d"))'],
    ['- a\n\n- b', 'ul(li(p("a")) li(p("b")))'],
    ['3. a\n4. b', 'ol[start=3](li("a") li("b"))'],
    ['1. a\n  - b\n2. c', 'ol(li("a" ul(li("b"))) li("c"))'],
    ['1. a\n\n   ```sh\n   ls\n   ```\n2. b', 'ol(li(p("a") pre:sh("ls")) li(p("b")))'],
    ['- [ ] a\n- [x] b', 'ul(li("☐ a") li("☑ b"))'],
    ['text\n- a', 'p("text") ul(li("a"))'],
    ['* * *', 'hr()'],
    ['```rust\nfn a() {}\n  b\n```\nc', 'pre:rust("fn a() {}\\n  b") p("c")'],
    ['~~~\n```\n~~~', 'pre:("```")'],
    ['````md\n```js\n```\n````', 'pre:md("```js\\n```")'],
    ['```py\nnot ended', 'pre:py("not ended")'],
    ['```', 'pre:("")'],
    ['', ''],
  ];
  for (const [text, tree] of cases) assert.equal(blocks(text), tree, text);
});

test('tables', () => {
  const tree = 'table(thead(tr(th("a") th[class=right]("b"))) tbody(tr(td("1") td[class=right]("2|3")) tr(td("4"))))';
  assert.equal(blocks('| a | b |\n|---|--:|\n| 1 | 2\\|3 |\n| 4 |'), tree);
  assert.equal(blocks('a | b\n--- | --:\n1 | 2\\|3\n| 4 |'), tree);
  assert.equal(blocks('Text:\n| a |\n|---|'), 'p("Text:") table(thead(tr(th("a"))) tbody())');
  assert.equal(blocks('a | b\n---'), 'p("a | b") hr()');
});

test('markup stays text', () => {
  const hostile = [
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '[a](javascript:alert(1))',
    '[a](<javascript:alert(1)>)',
    '[a](JaVaScRiPt:alert(1))',
    '[a](\tjavascript:alert(1))',
    '[a](data:text/html,<script>alert(1)</script>)',
    '[a](vbscript:x)',
    '[a](//evil.org)',
    '![a](javascript:alert(1))',
    '<javascript:alert(1)>',
    '```"><script>alert(1)</script>\nx\n```',
    '```js onload=x\n</code></pre><script>alert(1)</script>',
    '| <b onclick=x> |\n|---|\n| <iframe> |',
    '**<svg/onload=alert(1)>**',
    '[<img src=x>](https://x.org/"onmouseover="x)',
    '&lt;script&gt; &#106;avascript',
    '# <style>*{}</style>',
    '<a href="javascript:x">y</a>',
  ];
  const tags = /^(?:p|h[3-6]|hr|br|ul|ol|li|blockquote|pre|code|em|strong|del|a|table|thead|tbody|tr|th|td)$/;
  for (const text of hostile) {
    for (const node of nodes(text)) {
      if (typeof node === 'string') continue;
      assert.match(node.tag, tags, text);
      for (const [name, value] of Object.entries(node.attributes ?? {})) {
        assert.match(name, /^(?:href|target|rel|class|start)$/, text);
        if (name === 'href') assert.match(value, /^(?:https?:\/\/|mailto:)\S+$/, text);
        if (name === 'class') assert.match(value, /^(?:formula|right|centre)$/, text);
      }
    }
  }
  for (const bad of ['javascript:x', ' javascript:x', 'java\nscript:x', 'data:x', 'file:///x', '/x', 'x', '']) {
    assert.equal(safeAddress(bad), undefined, bad);
  }
});

test('time is linear and nesting bounded', () => {
  const units = [
    '*', '**', '_a', '*a ', '**a *b ', '`', '``` ', '`a``', '[', '![', '[a](', '[](', ']', '](', '[a](b', '[](a "', '<', '<a', '\\', '$$', '\\(',
    '~', '~~', '> ', '>', '- ', '-', '1. ', '# ', '#', '|', '| a ', '|-', 'a|b\n-|-\n', '\n', '\n\n', ' \n', '- a\n', '- a\n\n', '> a\n', '```\n',
    '~~~`', 'http', 'https://', 'https://a) ', 'https://)))', '(', '- \n', '  - a\n', '\t', '  ', ' \t', '*a_b~~c', '[a](https://x.org) ',
    'a\n', '# #', '-  -', '* ', '\r', '&', 'é', '🙂',
  ];
  const duration = (text) => {
    const began = process.cpuUsage().user;
    let depth = 0;
    const measure = (node, level) => {
      depth = Math.max(depth, level);
      for (const child of node.children ?? []) measure(child, level + 1);
    };
    for (const b of parseMarkdown(text)) measure(b.node, 1);
    assert.ok(depth < 80, `${depth} levels`);
    return (process.cpuUsage().user - began) / 1000;
  };
  for (const unit of units) {
    for (const before of ['', '[', '- ']) {
      const text = before + unit.repeat(Math.ceil(40_000 / unit.length));
      const took = duration(text);
      // Processor time; about 50 ms. What is quadratic needs far more.
      assert.ok(took < 2000, `${JSON.stringify(before + unit)} took ${took} ms`);
    }
  }
  const staircase = Array.from({ length: 500 }, (_, i) => `${'  '.repeat(i)}- a`).join('\n');
  assert.ok(duration(staircase) < 2000);
});

test('blocks that are followed by a whole line stay as they are when text is added', () => {
  const text = [
    '# Title', 'A paragraph', 'of two lines.', '', '- one', '- two', '', '  more', '- three', '', '1. a', '', '2. b', '', '| a | b |', '|---|---|',
    '| 1 | 2 |', 'after', '```rust', 'fn main() {}', '', '# no', '```', '> quote', '> more', '', '---', 'end **bold** #', '#x', '* item', '*** ', 'z',
  ].join('\n');
  const whole = parseMarkdown(text);
  for (let end = 1; end <= text.length; end++) {
    const part = text.slice(0, end);
    const found = parseMarkdown(part);
    const line = part.lastIndexOf('\n') + 1;
    const last = found.findLastIndex((b) => b.start < line);
    for (let i = 0; i < last; i++) {
      assert.equal(show(found[i].node), show(whole[i].node), JSON.stringify(part));
      assert.equal(found[i].start, whole[i].start);
    }
  }
});
