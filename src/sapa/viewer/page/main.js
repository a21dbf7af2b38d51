// Put everything on the page, and look at the first point.

async function start() {
  const report = await unpack(readReport());
  const state = makeState(report);
  writeTexts(report);
  makeExplorer(state);
  makePins(state);
  makeKernelMaps(state);
  makeFigures(state);
  watchKeys(state);
  const first = pointOfHash(report) ?? report.points[0];
  state.moveTo(first.row, first.column, true);
  state.changed("point", "view", "chosen", "shown", "pins", "theme");
  addEventListener("hashchange", () => {
    const point = pointOfHash(report);
    if (point) state.goTo(point);
  });
  // where there are keys, they move the point at once
  if (matchMedia("(pointer: fine)").matches) document.querySelector("canvas.main").focus({ preventScroll: true });
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  document.getElementById("lead").textContent = `This page could not be read: ${error.message}`;
  throw error;
});
