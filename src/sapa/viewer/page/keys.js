// The keyboard, and the buttons that do the same.

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function watchKeys(state) {
  const dialog = document.getElementById("keys");
  const { report } = state;
  const cell = [0, 1].map((axis) => Math.max(1, Math.round(report.size[axis] / report.low[axis])));

  const commands = {
    p: () => state.pin(),
    Delete: () => state.unpin(),
    Backspace: () => state.unpin(),
    Escape: () => state.hold(false),
    "+": () => state.zoomBy(1.5),
    "=": () => state.zoomBy(1.5),
    "-": () => state.zoomBy(1 / 1.5),
    0: () => state.showAll(),
    e: () => toggleEntropy(state),
    t: () => toggleTheme(state),
    "?": () => dialog.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const isOnMap = event.target.matches?.("canvas.map");
    const step = STEPS[event.key];
    if (step) {
      if (!isOnMap) return;
      const [rows, columns] = event.shiftKey ? cell : [1, 1];
      state.goTo({ row: state.point.row + step[0] * rows, column: state.point.column + step[1] * columns });
    } else if (event.key === "Enter") {
      if (!isOnMap) return;
      state.pin();
    } else if (/^[1-9]$/.test(event.key)) {
      state.choose(Number(event.key) - 1);
    } else {
      const command = commands[event.key] ?? commands[event.key.toLowerCase()];
      if (!command) return;
      command();
    }
    event.preventDefault();
  });

  const buttons = {
    help: () => dialog.showModal(),
    theme: () => toggleTheme(state),
    "zoom-in": () => state.zoomBy(1.5),
    "zoom-out": () => state.zoomBy(1 / 1.5),
    "zoom-reset": () => state.showAll(),
  };
  for (const [id, action] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", action);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.changed("theme"));
  state.listen((what) => {
    if (what.has("view")) document.getElementById("zoom-reset").textContent = `${Number(state.view.zoom.toFixed(1))}×`;
  });
}

function toggleEntropy(state) {
  state.show({ kind: state.shown.kind === "entropy" ? "corner" : "entropy" });
}
