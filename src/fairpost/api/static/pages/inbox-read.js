// Which e-mails were read. This is stored in the browser: all e-mails up to one ID, and some after it.

const NAME = "fairpost inbox read";
const IDS_MAX = 2000;
let marks = stored();

function stored() {
  try {
    const { upTo = 0, ids = [] } = JSON.parse(localStorage.getItem(NAME)) || {};
    return { upTo: Number(upTo), ids: new Set(ids.map(Number)) };
  } catch {
    return { upTo: 0, ids: new Set() };
  }
}

function keep() {
  const ids = [...marks.ids].sort((a, b) => b - a).slice(0, IDS_MAX);
  try {
    localStorage.setItem(NAME, JSON.stringify({ upTo: marks.upTo, ids }));
  } catch {
    // without storage, all e-mails will be unread next time
  }
}

export const isRead = (id) => Number(id) <= marks.upTo || marks.ids.has(Number(id));

export function markRead(id) {
  if (isRead(id)) return;
  marks.ids.add(id);
  keep();
}

export function markAllRead(upTo) {
  marks = { upTo, ids: new Set() };
  keep();
}

// In a new database, IDs start at 1 again.
export function forget(newest) {
  if (newest && newest < marks.upTo) markAllRead(0);
}

addEventListener("storage", (event) => { if (event.key === NAME) marks = stored(); }); // e-mails read in another tab
