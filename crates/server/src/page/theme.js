// Before the first paint: the colours that were chosen. Without a choice they are the system's.
try {
  const theme = localStorage.getItem('zinc.theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // A browser that remembers nothing.
}
