// Small texts that the browser remembers. One that refuses to forgets them with the page.

const forgetful = new Map();

/** @returns {string | undefined} */
export function recall(name) {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch {
    return forgetful.get(name);
  }
}

/** Remembers a text; an empty one is forgotten. */
export function remember(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
  } catch {
    forgetful.set(name, text || undefined);
  }
}
