// What is looked at: one object, and those who want to know when it changes.

function makeState(report) {
  const listeners = [];
  const waiting = new Set();
  let isScheduled = false;

  const state = {
    report,
    point: { row: 0, column: 0 },
    pins: [],
    chosen: report.upsamplers.length - 1,
    shown: { kind: "corner" },
    isHeld: false, // a click holds the point, so that the mouse can go elsewhere
    view: { zoom: 1, x: 0.5, y: 0.5 }, // the middle of what is seen, as parts of the picture

    // call back with the set of what changed, at most once a frame
    listen(callback) {
      listeners.push(callback);
    },

    changed(...what) {
      what.forEach((thing) => waiting.add(thing));
      if (isScheduled) return;
      isScheduled = true;
      requestAnimationFrame(() => {
        isScheduled = false;
        const all = new Set(waiting);
        waiting.clear();
        listeners.forEach((callback) => callback(all));
      });
    },

    moveTo(row, column, isQuiet = false) {
      const [H, W] = report.size;
      const next = { row: clamp(Math.round(row), 0, H - 1), column: clamp(Math.round(column), 0, W - 1) };
      if (next.row === state.point.row && next.column === state.point.column) return;
      state.point = next;
      state.changed("point");
      if (!isQuiet) rememberPoint(next);
    },

    // and keep it in sight
    goTo({ row, column }) {
      state.moveTo(row, column);
      state.follow();
    },

    hold(isHeld) {
      state.isHeld = isHeld;
      state.changed("held");
    },

    choose(i) {
      if (i < 0 || i >= report.upsamplers.length) return;
      state.chosen = i;
      state.changed("chosen");
    },

    show(shown) {
      state.shown = shown;
      state.changed("shown");
    },

    pin(point = state.point) {
      if (!state.pins.some((other) => isSame(other, point))) {
        state.pins.push({ ...point });
        state.changed("pins");
      }
    },

    unpin(i = state.pins.findLastIndex((other) => isSame(other, state.point))) {
      if (state.pins.splice(i, 1).length) state.changed("pins");
    },

    zoomBy(factor, at = null) {
      const { view } = state;
      const zoom = clamp(view.zoom * factor, 1, 24);
      const share = view.zoom / zoom;
      const [x, y] = at ?? pointPlace(report, state.point);
      setView(state, zoom, x + (view.x - x) * share, y + (view.y - y) * share);
    },

    panBy(x, y) {
      setView(state, state.view.zoom, state.view.x + x, state.view.y + y);
    },

    showAll() {
      setView(state, 1, 0.5, 0.5);
    },

    follow() {
      const [x, y] = pointPlace(report, state.point);
      const half = 0.5 / state.view.zoom;
      const edge = 0.8 * half;
      const { view } = state;
      setView(state, view.zoom, clamp(view.x, x - edge, x + edge), clamp(view.y, y - edge, y + edge));
    },
  };
  return state;
}

function setView(state, zoom, x, y) {
  const half = 0.5 / zoom;
  state.view = { zoom, x: clamp(x, half, 1 - half), y: clamp(y, half, 1 - half) };
  state.changed("view");
}

function pointPlace(report, point) {
  return [(point.column + 0.5) / report.size[1], (point.row + 0.5) / report.size[0]];
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

function isSame(one, other) {
  return one.row === other.row && one.column === other.column;
}

let rememberTimer = 0;

// in the address, so that it can be sent to somebody; not for every pixel on the way
function rememberPoint(point) {
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(() => {
    try {
      history.replaceState(null, "", hashOf(point));
    } catch {
      // a page inside another one may not change its address
    }
  }, 300);
}

function hashOf(point) {
  return `#p=${point.row},${point.column}`;
}

function pointOfHash(report) {
  const found = /^#p=(\d+),(\d+)$/.exec(location.hash);
  if (!found) return null;
  const [row, column] = [Number(found[1]), Number(found[2])];
  return row < report.size[0] && column < report.size[1] ? { row, column } : null;
}
