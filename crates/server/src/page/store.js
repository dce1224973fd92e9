// Conversations, kept by the browser (IndexedDB). They leave this machine only in requests to the server.
//   conversation = { id, title, named, created, updated, settings, messages: [message] }
//   message = { role, content, reasoning?, finish?, error?, stats? }

const STORE = 'conversations';
let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('zinc', 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: 'id' });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

async function run(mode, act) {
  const database = await open();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, mode);
    const request = act(transaction.objectStore(STORE));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

/** All conversations, the latest first. */
export async function all() {
  const found = await run('readonly', (store) => store.getAll());
  return found.sort((a, b) => b.updated - a.updated);
}

export const save = (conversation) => run('readwrite', (store) => store.put(conversation));
export const remove = (id) => run('readwrite', (store) => store.delete(id));

/** A conversation without messages; it is not saved yet. */
export function create(settings) {
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
  return { id, title: 'New conversation', named: false, created: Date.now(), updated: Date.now(), settings, messages: [] };
}

/** What is written to a file: the messages in the API's form. */
export function exported({ title, created, settings, messages }) {
  const said = messages.map(({ role, content, reasoning }) => ({ role, content, ...(reasoning && { reasoning_content: reasoning }) }));
  return JSON.stringify({ title, created: new Date(created).toISOString(), settings, messages: said }, null, 2);
}
