// The highlighter: its pieces are the code, and time is linear.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { highlight } from '../../src/page/highlight.js';
import { LANGUAGES } from '../../src/page/languages.js';

const show = (code, language) =>
  highlight(code, language).filter((p) => p.kind).map((p) => `${p.kind}:${p.text}`).join(' ');

test('what is what', () => {
  const cases = [
    ['rust', 'fn f<\'a>(x: &\'a str) -> u8 { \'x\' } // end', "keyword:fn string:'x' comment:// end"],
    ['rust', 'let v = Vec::new(0x1f); /* a\nb */', 'keyword:let type:Vec function:new number:0x1f comment:/* a\nb */'],
    ['python', 'def f(x):\n  """doc"""\n  return x + 1.5 # c', 'keyword:def function:f string:"""doc""" keyword:return number:1.5 comment:# c'],
    ['js', 'const a = `x${1}`; f("y")', 'keyword:const string:`x${1}` function:f string:"y"'],
    ['JSON', '{"a": [1, true]}', 'string:"a" number:1 keyword:true'],
    ['sql', "SELECT a FROM b WHERE c = 'd' -- e", "keyword:SELECT keyword:FROM keyword:WHERE string:'d' comment:-- e"],
    ['html', '<!-- c --><a href="x">y</a>', 'comment:<!-- c --> keyword:<a string:"x" keyword:> keyword:</a keyword:>'],
    ['sh', 'echo "$a" # c', 'keyword:echo string:"$a" comment:# c'],
    ['diff', '@@ 1 @@\n-a\n+b\n c', 'comment:@@ 1 @@\n removed:-a\n added:+b\n'],
    ['unknown', 'if x', ''],
    ['', 'if x', ''],
    ['constructor', 'if x', ''],
  ];
  for (const [language, code, expected] of cases) assert.equal(show(code, language), expected, code);
});

test('pieces are the code, in linear time, whatever it is', () => {
  const units = ['"', "'", '`', '/*', '//', '#', '--', '<!--', '\\', '"\\', 'a', 'A', '1', '1e', '0x', '_', '$', '<a', '[', '"""', '--[[', '\n', '+', 'é', '🙂', ' '];
  for (const name of new Map([...LANGUAGES].map(([name, language]) => [language, name])).values()) {
    for (const unit of units) {
      const code = unit.repeat(Math.ceil(20_000 / unit.length)) + 'end';
      const began = process.cpuUsage().user;
      const pieces = highlight(code, name);
      assert.ok(process.cpuUsage().user - began < 2_000_000, `${name} ${unit}`);
      assert.equal(pieces.map((p) => p.text).join(''), code, `${name} ${unit}`);
    }
  }
});
