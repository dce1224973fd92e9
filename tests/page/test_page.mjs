// The chat page in a browser: node test_page.mjs ADDRESS CHROMIUM [FOLDER FOR SCREENSHOTS]
// The server and its model are real; answers with a given text are put in place of the model's.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const [address, executablePath, shots] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'] });
const page = await context.newPage();
const complaints = [];
page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
page.on('pageerror', (error) => complaints.push(String(error)));

const MARKDOWN = `Here is a **binary search** in Rust, with its cost; see [the book](https://doc.rust-lang.org/book/).

## The code

\`\`\`rust
/// Where \`wanted\` is in a sorted slice.
fn search(sorted: &[u32], wanted: u32) -> Option<usize> {
    let (mut low, mut high) = (0, sorted.len());
    while low < high {
        let middle = low + (high - low) / 2; // no overflow
        match sorted[middle].cmp(&wanted) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Some(middle),
        }
    }
    None
}
\`\`\`

| case | comparisons | memory |
|:--|--:|:-:|
| best | 1 | \`O(1)\` |
| worst | log₂ *n* + 1 | \`O(1)\` |

1. Sort once:
   - \`slice.sort_unstable()\`
   - or keep it sorted
2. Search often

> Measure before you believe it.

<img src=x onerror="document.title='broken into'"> [x](javascript:alert(1))
`;

const TIMINGS = {
  queue_ms: 1, prompt_n: 42, cache_n: 128, prompt_ms: 80, prompt_per_second: 525, predicted_n: 210, predicted_ms: 6300,
  predicted_per_second: 33.2, prefill_path: 'batched', prefill_rows: 512, prefill_fallbacks: [],
};
const chunk = (delta, more = {}) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`;
const USAGE = { choices: [], usage: { prompt_tokens: 170, completion_tokens: 210, total_tokens: 380 } };
const END = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], timings: TIMINGS })}\n\ndata: ${JSON.stringify(USAGE)}\n\ndata: [DONE]\n\n`;

/** Answers the next request in place of the server. */
async function instead(answer) {
  await page.route('**/v1/chat/completions', (route) => route.fulfill(answer), { times: 1 });
}
const streamed = (body) => ({ status: 200, contentType: 'text/event-stream', body });
const refused = (status, message, code, headers = {}) => ({
  status, headers, contentType: 'application/json', body: JSON.stringify({ error: { message, code } }),
});

const answers = page.locator('li.answer');
const last = answers.last();
async function say(text) {
  await page.fill('#draft', text);
  await page.press('#draft', 'Enter');
}
const done = () => page.waitForSelector('#send:visible', { timeout: 120_000 });
async function shot(name) {
  if (shots) await page.screenshot({ path: `${shots}/${name}.png` });
}

const checks = {
  async 'it shows the model'() {
    await page.goto(address);
    await page.waitForFunction(() => document.querySelector('#device').textContent !== '');
    await shot('empty');
  },

  async 'the model answers, and the figures are the servers'() {
    await page.fill('#draft', 'Hello');
    await page.press('#draft', 'Shift+Enter');
    await page.type('#draft', 'there');
    await page.press('#draft', 'Enter');
    await done();
    assert.equal(await page.locator('.said').innerText(), 'Hello\nthere');
    assert.match(await last.locator('.figures').innerText(), /tok\/s · first token .* · prefill \w+/);
    assert.match(await page.locator('#meters').innerText(), /Context\s+\d+ of \d+/);
    await shot('answer');
  },

  async 'an answer is stopped by Esc and stays'() {
    await say('Count to a thousand, slowly.');
    await page.waitForFunction(() => document.querySelector('li.answer.generating > .markdown')?.textContent.length > 10);
    await page.keyboard.press('Escape');
    await done();
    assert.equal(await last.locator('.state').innerText(), 'Stopped.');
  },

  async 'what was said is there after a reload'() {
    const before = await page.locator('#messages').innerText();
    await page.reload();
    await page.waitForSelector('li.answer');
    assert.equal(await page.locator('#messages').innerText(), before);
  },

  async 'Markdown, reasoning and code'() {
    await page.keyboard.press('Alt+n');
    const pieces = MARKDOWN.match(/[^]{1,7}/g).map((content) => chunk({ content })).join('');
    await instead(streamed(chunk({ reasoning_content: 'They want **Rust**.' }) + pieces + END));
    await say('Show me binary search in Rust');
    await done();
    assert.equal(await last.locator('.reasoning').getAttribute('open'), null);
    await last.locator('summary').click();
    assert.equal(await last.locator('.reasoning strong').innerText(), 'Rust');
    assert.equal(await last.locator('.code-bar span').innerText(), 'rust');
    assert.equal(await last.locator('.token-keyword').first().innerText(), 'fn');
    assert.equal(await last.locator('td').count(), 6);
    assert.equal(await last.locator('img, script').count(), 0);
    assert.deepEqual(await last.locator('a').evaluateAll((all) => all.map((a) => a.getAttribute('href'))), ['https://doc.rust-lang.org/book/']);
    assert.notEqual(await page.title(), 'broken into');
    await last.locator('.code-bar button').click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^\/\/\/ Where[^]*\n}$/);
    await page.locator('#scroller').evaluate((s) => (s.scrollTop = 0));
    await shot('markdown-light');
    await page.click('#theme');
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    await shot('markdown-dark');
  },

  async 'a message is edited and an answer given again'() {
    await instead(streamed(chunk({ content: 'first' }) + END));
    await page.locator('li.user').last().hover();
    await page.locator('li.user').last().getByText('Edit').click();
    await page.locator('.editor textarea').fill('Another question');
    await shot('editing');
    await page.keyboard.press('Enter');
    await done();
    assert.equal(await answers.count(), 1);
    await instead(streamed(chunk({ content: 'second' }) + END));
    await last.getByText('Answer again').click();
    await done();
    assert.equal(await last.locator('> .markdown').innerText(), 'second');
    assert.equal(await page.locator('.said').innerText(), 'Another question');
  },

  async 'errors are shown, and busy servers asked again'() {
    await instead(refused(400, 'the prompt has 5000 tokens, the context holds 4096', 'context_length_exceeded'));
    await say('long');
    await done();
    assert.match(await last.locator('.state').innerText(), /5000 tokens/);
    await shot('error');
    await instead(streamed(chunk({ content: 'half' })));
    await last.getByText('Try again').click();
    await done();
    assert.match(await last.innerText(), /half[^]*ended before/);
    await instead(refused(429, 'the queue is full', 'rate_limited', { 'retry-after': '2' }));
    await last.getByText('Try again').click();
    await page.waitForFunction(() => /asking again in/.test(document.querySelector('li.answer:last-child .state').textContent));
    await instead(streamed(chunk({ content: 'at last' }) + END));
    await done();
    assert.equal(await last.locator('> .markdown').innerText(), 'at last');
    await instead(refused(401, 'an API key is needed'));
    await say('secret');
    await done();
    await last.locator('.state').getByText('Settings').click();
    assert.ok(await page.locator('#settings').isVisible());
  },

  async 'settings go into requests'() {
    await page.fill('[name=system]', 'Be brief.');
    await page.fill('[name=temperature]', '0.3');
    await page.fill('[name=seed]', '7');
    await page.fill('[name=key]', 'a key');
    await shot('settings');
    await page.click('#settings [value=save]');
    const asked = page.waitForRequest('**/v1/chat/completions');
    await instead(streamed(chunk({ content: 'ok' }) + END));
    await last.getByText('Try again').click();
    const request = await asked;
    const body = request.postDataJSON();
    assert.deepEqual(body.messages[0], { role: 'system', content: 'Be brief.' });
    assert.deepEqual([body.temperature, body.seed, 'top_p' in body, body.messages.at(-1).content], [0.3, 7, false, 'secret']);
    assert.equal(request.headers().authorization, 'Bearer a key');
    await done();
  },

  async 'conversations are renamed, exported and deleted'() {
    const item = page.locator('#list li').first();
    await item.locator('summary').click();
    await shot('menu');
    await item.getByText('Rename').click();
    await page.locator('#list input').fill('Searching');
    await page.keyboard.press('Enter');
    assert.equal(await item.locator('.title').innerText(), 'Searching');
    await item.locator('summary').click();
    const [file] = await Promise.all([page.waitForEvent('download'), item.getByText('Export').click()]);
    assert.equal(file.suggestedFilename(), 'Searching.json');
    await item.getByText('Delete').click();
    await item.getByText('Really delete').click();
    await page.waitForFunction(() => document.querySelectorAll('#list li').length === 1);
    await page.reload();
    await page.waitForSelector('li.answer');
    assert.equal(await page.locator('#list li').count(), 1);
  },

  async 'a narrow screen'() {
    await page.setViewportSize({ width: 375, height: 700 });
    await instead(streamed(chunk({ content: MARKDOWN }) + END));
    await say('Show me binary search in Rust');
    await done();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 375, `${wide} pixels wide`);
    await page.locator('#scroller').evaluate((s) => (s.scrollTop = 250));
    await shot('narrow');
    assert.equal(await page.locator('#sidebar').isVisible(), false);
    await page.click('#open-list');
    await page.waitForTimeout(250);
    await shot('narrow-list');
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#sidebar').isVisible(), false);
  },

  async 'a server that went away is noticed'() {
    await page.route('**/health', (route) => route.abort());
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await page.waitForSelector('#notice:visible');
    assert.match(await page.locator('#notice').innerText(), /cannot be reached/);
    await shot('gone');
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${error.message}`);
    await shot(`failed-${failed}`);
  }
}
// A request that is refused or cut on purpose is no complaint.
const unexpected = complaints.filter((c) => !/Failed to load resource/.test(c));
for (const complaint of unexpected) console.log(`FAIL the console: ${complaint}`);
await browser.close();
process.exit(failed + unexpected.length > 0 ? 1 : 0);
