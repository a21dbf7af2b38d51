// Mouse, pen and fingers on a map. A mouse moves the point by hovering, and a click holds it; a finger drags it.

const DRAG = 5; // pixels after which a press is no click

function watchPointer(state, map) {
  const { canvas } = map;
  const fingers = new Map();
  let press = null;
  let pinch = null;

  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event);
    press = { x: event.clientX, y: event.clientY, isDrag: false };
    pinch = fingers.size === 2 ? spread(fingers) : null;
    if (event.pointerType !== "mouse" && fingers.size === 1) movePoint(state, map, event);
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before) fingers.set(event.pointerId, event);
    if (pinch && fingers.size === 2) {
      const now = spread(fingers);
      const at = partOf(state, map, { clientX: now.x, clientY: now.y });
      state.zoomBy(now.distance / pinch.distance, at);
      pan(state, map, now.x - pinch.x, now.y - pinch.y);
      pinch = now;
    } else if (before && event.pointerType === "mouse") {
      press.isDrag ||= Math.hypot(event.clientX - press.x, event.clientY - press.y) > DRAG;
      if (press.isDrag) pan(state, map, event.clientX - before.clientX, event.clientY - before.clientY);
    } else if (fingers.size < 2 && (before || (event.pointerType === "mouse" && !state.isHeld))) {
      movePoint(state, map, event);
    }
  });

  canvas.addEventListener("pointerup", (event) => {
    if (event.pointerType === "mouse" && press && !press.isDrag) {
      const wasHeld = state.isHeld;
      state.hold(false);
      movePoint(state, map, event);
      state.hold(!wasHeld);
    }
    fingers.delete(event.pointerId);
    pinch = null;
  });

  canvas.addEventListener("pointercancel", (event) => {
    fingers.delete(event.pointerId);
    pinch = null;
  });

  canvas.addEventListener("wheel", (event) => {
    const isOut = event.deltaY > 0;
    // a wheel over a small map, or one that cannot zoom out further, scrolls the page
    if (!(map.options.isMain || event.ctrlKey) || (isOut && state.view.zoom === 1)) return;
    event.preventDefault();
    state.zoomBy(Math.exp(-clamp(event.deltaY, -120, 120) / 400), partOf(state, map, event));
  }, { passive: false });
}

function spread(fingers) {
  const [one, other] = [...fingers.values()];
  return {
    x: (one.clientX + other.clientX) / 2,
    y: (one.clientY + other.clientY) / 2,
    distance: Math.max(1, Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY)),
  };
}

function partOf(state, map, event) {
  const frame = map.canvas.getBoundingClientRect();
  const { zoom, x, y } = state.view;
  return [
    x + ((event.clientX - frame.left) / frame.width - 0.5) / zoom,
    y + ((event.clientY - frame.top) / frame.height - 0.5) / zoom,
  ];
}

function movePoint(state, map, event) {
  const [across, down] = partOf(state, map, event);
  const [H, W] = state.report.size;
  state.moveTo(Math.floor(down * H), Math.floor(across * W));
}

function pan(state, map, x, y) {
  const frame = map.canvas.getBoundingClientRect();
  state.panBy(-x / frame.width / state.view.zoom, -y / frame.height / state.view.zoom);
}
