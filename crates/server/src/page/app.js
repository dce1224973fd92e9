// The page: which conversation is shown, the answer that is being generated, and what the keys do.

import { Answer } from './answer.js';
import * as api from './api.js';
import { remember } from './memory.js';
import { Messages } from './messages.js';
import { Meters } from './meters.js';
import * as settings from './settings.js';
import { Sidebar } from './sidebar.js';
import * as store from './store.js';

const BUSY_POLL = 1500; // Milliseconds between questions to the server while it works for this page,
const CALM_POLL = 10_000; // and while it does not,
const SAVE = 5000; // and between two times that an unfinished answer is saved.
const READ_OUT = 600; // Characters of an answer that is read out as a whole.

const $ = (id) => document.getElementById(id);
const meters = new Meters();
const messages = new Messages({ edit, again, settings: changeSettings });
const sidebar = new Sidebar({ open: show, rename, remove, download });

let conversations = [];
let current = store.create(settings.current());
let answer; // The one that is being generated; there is one at a time.
let model;

// Conversations.

function show(conversation) {
  current = conversation;
  messages.show(current.messages, answer?.message);
  sidebar.show(conversations, current);
  sidebar.toggle(false);
  meters.showAnswer(lastStats(current), model?.max_model_len);
  $('draft').focus();
}

/** The figures of the last answer that has some. */
function lastStats({ messages }) {
  return messages.findLast((m) => m.stats?.generated)?.stats ?? {};
}

function begin() {
  show(store.create(settings.current()));
}

/** Saves a conversation; one that says something new goes to the top of the list. */
async function keep(conversation, isNew = false) {
  if (isNew) {
    conversation.updated = Date.now();
    conversations = [conversation, ...conversations.filter((c) => c !== conversation)];
  }
  sidebar.show(conversations, current);
  await store.save(conversation).catch((e) => notify(`The browser does not keep conversations: ${e.message}`));
}

function rename(conversation, title) {
  Object.assign(conversation, { title, named: true });
  keep(conversation);
}

async function remove(conversation) {
  if (answer?.conversation === conversation) answer.stop();
  conversations = conversations.filter((c) => c !== conversation);
  await store.remove(conversation.id);
  if (conversation === current) begin();
  else sidebar.show(conversations, current);
}

function download(conversation) {
  const address = URL.createObjectURL(new Blob([store.exported(conversation)], { type: 'application/json' }));
  const link = Object.assign(document.createElement('a'), { href: address, download: `${fileName(conversation.title)}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function fileName(title) {
  return title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '') || 'conversation';
}

async function changeSettings() {
  const changed = await settings.ask(current.settings);
  if (!changed) return;
  current.settings = changed;
  if (conversations.includes(current)) await keep(current);
  await watch();
}

// Messages.

async function send() {
  const text = $('draft').value.trim();
  if (!text || answer) return;
  $('draft').value = '';
  fit();
  await say(text);
}

async function say(text) {
  const message = { role: 'user', content: text };
  if (current.messages.length === 0 && !current.named) current.title = text.split('\n', 1)[0].slice(0, 60);
  current.messages.push(message);
  messages.add(message);
  await generate(current);
}

/** Says a message of the user differently. What followed it is dropped. */
async function edit(message, text) {
  if (answer) return notify('An answer is being generated: stop it first.');
  cut(message);
  await say(text);
}

/** Answers once more in place of this answer. */
async function again(message) {
  if (answer) return;
  cut(message);
  await generate(current);
}

function cut(message) {
  current.messages.splice(current.messages.indexOf(message));
  messages.show(current.messages);
}

async function generate(conversation) {
  const { prompt = 0, generated = 0 } = lastStats(conversation);
  // Until the server counts, the prompt is taken for what it was last and the answer to it.
  const message = { role: 'assistant', content: '', stats: { prompt: prompt + generated } };
  answer = new Answer(conversation, message);
  setGenerating(true);
  messages.add(message, true);
  announce('Answering');
  const refresh = throttled(() => {
    if (conversation !== current) return;
    messages.update(message, true, answer?.waiting ?? '');
    meters.showAnswer(message.stats, model?.max_model_len);
  });
  // The request ends with what the user said: the answer joins the conversation once that is made.
  const running = answer.run(refresh);
  conversation.messages.push(message);
  keep(conversation, true);
  const saving = setInterval(() => conversations.includes(conversation) && store.save(conversation), SAVE);
  await running;
  clearInterval(saving);
  refresh.cancel();
  answer = undefined;
  setGenerating(false);
  if (conversation === current) {
    messages.update(message, false, '');
    meters.showAnswer(lastStats(conversation), model?.max_model_len);
  }
  announce(ending(message));
  // One that was deleted meanwhile stays deleted.
  if (conversations.includes(conversation)) await keep(conversation);
  await watch();
}

function ending({ content, error, finish }) {
  if (error) return `Error: ${error.message}`;
  if (finish === 'stopped') return 'Stopped';
  return content.length <= READ_OUT ? content : `The answer is complete: ${content.split(/\s+/).length} words`;
}

function setGenerating(on) {
  document.body.classList.toggle('generating', on);
  $('send').hidden = on;
  $('stop').hidden = !on;
  // The button that had the focus may be gone.
  if (document.activeElement === document.body) $('draft').focus();
}

/** Runs once a frame at most, and less often where it takes long: it shall need a fifth of the time. */
function throttled(act) {
  let timer;
  let earliest = 0;
  const run = () => {
    timer = undefined;
    const began = performance.now();
    act();
    const ended = performance.now();
    earliest = ended + 4 * (ended - began);
  };
  const ask = () => (timer ??= setTimeout(run, Math.max(16, earliest - performance.now())));
  ask.cancel = () => clearTimeout(timer);
  return ask;
}

// What the server says.

/** Asks the server how it is, and shows it. */
async function watch() {
  const { status, reason } = await api.health();
  if (status !== 'ok') {
    const words = {
      gone: 'The server cannot be reached. This page asks again by itself.',
      loading: 'The model is being loaded…',
      draining: 'The server is shutting down.',
    };
    model = undefined;
    return notify(words[status] ?? `The server cannot answer: ${reason ?? status}`);
  }
  try {
    if (!model) showModel(await api.model());
    meters.showServer(model, await api.metrics());
    return notify('');
  } catch (e) {
    return notify(e.status === 401 ? `${e.message} It is entered in the settings.` : e.message);
  }
}

function showModel(found) {
  model = found;
  const { meta } = model;
  $('model').textContent = model.id;
  $('device').textContent = `${meta.architecture} on ${meta.device}, ${meta.policy}`;
  document.title = `${model.id} – zinc`;
  if (!meta.chat) notify('This model has no chat template: it cannot chat.');
  meters.showAnswer(lastStats(current), model.max_model_len);
}

async function watchOn() {
  if (!document.hidden) await watch();
  setTimeout(watchOn, answer || !model ? BUSY_POLL : CALM_POLL);
}

function notify(text) {
  if ($('notice').textContent !== text) $('notice').textContent = text;
  $('notice').hidden = text === '';
}

function announce(text) {
  $('announcer').textContent = text;
}

// Controls.

function fit() {
  const draft = $('draft');
  draft.style.height = 'auto';
  draft.style.height = `${draft.scrollHeight + 2}px`;
}

const isDark = () =>
  (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';

function showTheme() {
  $('theme').textContent = isDark() ? 'Light' : 'Dark';
}

function switchTheme() {
  const theme = isDark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  remember('zinc.theme', theme);
  showTheme();
}

const SHORTCUTS = {
  KeyN: begin,
  KeyE: () => answer || messages.editLast(),
  KeyR: () => current.messages.at(-1)?.role === 'assistant' && again(current.messages.at(-1)),
  KeyS: changeSettings,
  KeyL: () => sidebar.reach(),
  KeyM: () => $('draft').focus(),
  KeyH: () => $('help').showModal(),
};

function onKey(event) {
  if (document.querySelector('dialog[open]')) return;
  if (event.key === 'Escape' && answer) {
    answer.stop();
    event.preventDefault();
  } else if (event.altKey && !event.ctrlKey && !event.metaKey && event.code in SHORTCUTS) {
    SHORTCUTS[event.code]();
    event.preventDefault();
  }
}

function onDraftKey(event) {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
}

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  send();
});
$('draft').addEventListener('keydown', onDraftKey);
$('draft').addEventListener('input', fit);
$('stop').addEventListener('click', () => answer?.stop());
$('new').addEventListener('click', begin);
$('open-settings').addEventListener('click', changeSettings);
$('open-help').addEventListener('click', () => $('help').showModal());
$('theme').addEventListener('click', switchTheme);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showTheme);
document.addEventListener('keydown', onKey);
document.addEventListener('visibilitychange', () => document.hidden || watch());

showTheme();
conversations = await store.all().catch((e) => {
  notify(`The browser does not keep conversations: ${e.message}`);
  return [];
});
show(conversations[0] ?? current);
watchOn();
