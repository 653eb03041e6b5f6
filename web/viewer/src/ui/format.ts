// Numbers, times and sizes in words.

export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString("en")} ${value === 1 ? one : many}`;
}

export function short(value: number): string {
  if (value < 1000) return String(value);
  if (value < 999_500) return `${trim(value / 1000)}k`;
  return value < 999_500_000 ? `${trim(value / 1e6)}M` : `${trim(value / 1e9)}G`;
}

function trim(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  if (value < 1e6) return `${trim(value / 1000)} kB`;
  return `${trim(value / 1e6)} MB`;
}

export function money(value: number): string {
  return value === 0 ? "" : value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`;
}

export function age(time: number, now = Date.now()): string {
  const seconds = Math.max(0, (now - time) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return seconds < 86_400 * 365 ? `${Math.floor(seconds / 86_400)}d` : `${Math.floor(seconds / 86_400 / 365)}y`;
}

export function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 1) return `${Math.round(milliseconds)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric" });

export function clock(time: number): string {
  return CLOCK.format(time);
}

export function when(time: number): string {
  return `${DAY.format(time)}, ${CLOCK.format(time)}`;
}

export function iso(time: number): string {
  return new Date(time).toISOString();
}
