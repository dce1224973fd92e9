// Numbers for people.

/** Three digits: 0.123, 1.23, 12.3, 123. */
export function number(value) {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value.toPrecision(value < 1 ? 2 : 3);
}

export function seconds(milliseconds) {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${number(milliseconds / 1000)} s`;
}

export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; unit++) count /= 1024;
  return `${number(count)} ${units[unit]}`;
}

/** Which way a prompt took through the prefill. */
export function prefill({ path, rows, fallbacks = [] }) {
  const steps = rows > 1 ? `, ${rows} rows` : '';
  const narrower = fallbacks.length > 0 ? `, ${fallbacks.length} fallbacks` : '';
  return `${path}${steps}${narrower}`;
}
