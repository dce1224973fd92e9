// The settings and their dialog.

import { key, setKey } from './api.js';
import { NUMBERS } from './answer.js';
import { recall, remember } from './memory.js';

const STORED = 'zinc.settings';
const DEFAULTS = { system: '' };

/** The settings of new conversations. */
export function current() {
  try {
    return { ...DEFAULTS, ...JSON.parse(recall(STORED) ?? '{}') };
  } catch {
    return { ...DEFAULTS };
  }
}

/** Asks for settings, beginning with these. The result is undefined when it was cancelled. */
export function ask(settings) {
  const dialog = document.querySelector('#settings');
  const form = dialog.querySelector('form');
  for (const name of ['system', 'reasoning_effort', ...NUMBERS]) form.elements[name].value = settings[name] ?? '';
  form.elements.key.value = key();
  dialog.returnValue = 'cancel';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'save' ? read(form) : undefined), { once: true });
  });
}

function read(form) {
  const settings = { system: form.elements.system.value.trim() };
  if (form.elements.reasoning_effort.value) settings.reasoning_effort = form.elements.reasoning_effort.value;
  for (const name of NUMBERS) {
    const value = form.elements[name].valueAsNumber;
    if (!Number.isNaN(value)) settings[name] = value;
  }
  remember(STORED, JSON.stringify(settings));
  setKey(form.elements.key.value.trim());
  return settings;
}
