// Elements and numbers in words. Text only ever gets into the page as text.

export const NONE = '–';

export const byId = (id) => document.getElementById(id);

/** An element with properties, `aria-` and `role` attributes, and children: elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && !name.startsWith('aria')) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function percent(share, digits = 0) {
  return share === null || Number.isNaN(share) ? NONE : `${(100 * share).toFixed(digits)} %`;
}

export function milliseconds(seconds) {
  return Number.isNaN(seconds) ? NONE : `${(1000 * seconds).toFixed(1)} ms`;
}

/** A number in three figures. */
export function figure(value) {
  return Number.isNaN(value) ? NONE : Number(value.toPrecision(3)).toString();
}

/** Seconds as 0:05.240. */
export function clockTime(seconds, digits = 2) {
  const whole = Math.floor(seconds / 60);
  const hours = Math.floor(whole / 60);
  const rest = (seconds - 60 * whole).toFixed(digits).padStart(digits ? 3 + digits : 2, '0');
  return hours ? `${hours}:${String(whole % 60).padStart(2, '0')}:${rest}` : `${whole}:${rest}`;
}

/** Seconds in words: 6 s, 12 min 30 s. */
export function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${seconds < 10 ? seconds.toFixed(1) : whole} s`;
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A whole number with thin spaces. */
export function count(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function plural(number, one) {
  return `${count(number)} ${one}${number === 1 ? '' : 's'}`;
}
