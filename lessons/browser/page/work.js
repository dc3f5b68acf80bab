// The student's work: what was changed in which cell, and which checks have passed. Kept in this browser only.
const PLACE = "pagelab-lessons";
const work = read();

function read() {
  const empty = { code: {}, passed: {} };
  try {
    return { ...empty, ...JSON.parse(localStorage.getItem(PLACE) ?? "{}") };
  } catch {
    return empty; // no storage here, or not ours: the page works, and forgets
  }
}

function write() {
  try {
    localStorage.setItem(PLACE, JSON.stringify(work));
  } catch {
    // no storage, or no room in it
  }
}

function keep(part, key, value) {
  if ((part[key] ?? null) === value) return;
  if (value === null) delete part[key];
  else part[key] = value;
  write();
}

export const keptCode = (key) => work.code[key];
export const keepCode = (key, code) => keep(work.code, key, code); // null: as it was at first
export const hasPassed = (key) => key in work.passed;
export const keepPassed = (key, passed) => keep(work.passed, key, passed || null);

export function forgetAll() {
  Object.assign(work, { code: {}, passed: {} });
  write();
}
