// Amounts and times in words.

export const whole = (value) => Math.round(value).toLocaleString("en-US");
export const few = (value) => (value >= 100 ? whole(value) : value.toLocaleString("en-US", { maximumFractionDigits: 1 }));
export const many = (count, one, more) => `${whole(count)} ${count === 1 ? one : more}`;
// What the daemon's clock says; `skewMs` is by how much it is ahead of this machine's.
export const daemon = { skewMs: 0 };
export const now = () => Date.now() + daemon.skewMs;

export function size(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    bytes /= 1024;
    if (bytes < 1024) return `${bytes.toFixed(1)} ${unit}`;
  }
  return `${(bytes / 1024).toFixed(1)} TiB`;
}

export function duration(ms) {
  let seconds = Math.max(0, Math.floor(ms / 1000));
  const parts = [];
  for (const [name, length] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(seconds / length);
    seconds -= count * length;
    if (count || parts.length) parts.push([count, name]);
  }
  return parts.slice(0, 2).filter(([count]) => count).map(([count, name]) => `${count} ${name}`).join(" ") || "0 s";
}

export const ago = (ms) => (ms === null ? "not yet" : `${duration(now() - ms)} ago`);
export const sinceSeconds = (moment) => duration(now() - moment * 1000);
