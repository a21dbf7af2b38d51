// Pinned points: a row each, with its kernels under every upsampler and an address to send.

function makePins(state) {
  const section = document.getElementById("pins-section");
  const list = document.getElementById("pins");
  document.getElementById("pin").addEventListener("click", () => state.pin());
  state.listen((what) => {
    if (!what.has("pins") && !what.has("theme")) return;
    section.hidden = state.pins.length === 0;
    list.replaceChildren(...state.pins.map((pin, i) => makePin(state, pin, i)));
  });
}

function makePin(state, pin, i) {
  const { report } = state;
  const chip = makeElement("a", "chip", makeElement("span", "number", String(i + 1)), `row ${pin.row}, column ${pin.column}`);
  chip.href = hashOf(pin);
  chip.title = "Go there; the link leads back to this point";
  chip.addEventListener("click", (event) => {
    event.preventDefault();
    state.goTo(pin);
  });
  const remove = makeElement("button", "remove", "×");
  remove.type = "button";
  remove.setAttribute("aria-label", `Remove pin ${i + 1}`);
  remove.addEventListener("click", () => state.unpin(i));
  const kernels = report.upsamplers.map((upsampler) => {
    const taps = tapsOf(report, upsampler, pin);
    const canvas = makeElement("canvas", "tiny");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Kernel of ${upsampler.name}`);
    drawKernel(report, canvas, taps, currentTheme());
    const points = summaryOf(taps).points.toFixed(1);
    return makeElement("figure", "", canvas, makeElement("figcaption", "", `${upsampler.name}, ${points}`));
  });
  return makeElement("div", "pin", makeElement("p", "", chip, remove), makeElement("div", "tinies", ...kernels));
}
