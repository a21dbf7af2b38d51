// Kernel maps: one weight of every point, or the entropy of its weights, for each upsampler.

const NAMES = { corner: "top-left weight", entropy: "entropy" };

function makeKernelMaps(state) {
  const { report } = state;
  makeTapButtons(state);
  makeMeasureButtons(state);
  const gallery = document.getElementById("kernel-maps");
  const maps = report.upsamplers.map((upsampler) => {
    const figure = makeElement("figure", "");
    gallery.append(figure);
    const note = makeElement("span", "value");
    const source = makeElement("canvas", "");
    Object.assign(source, { width: report.size[1], height: report.size[0] });
    const map = makeMap(state, figure, {
      label: `Kernel map of ${upsampler.name}`,
      source,
      caption: [makeElement("strong", "", upsampler.name), note],
    });
    return { upsampler, source, map, note };
  });
  const entropies = new Map();
  state.listen((what) => {
    if (what.has("shown")) {
      const fields = maps.map(({ upsampler }) => fieldOf(report, upsampler, state.shown, entropies));
      // a kernel of one point is 1 everywhere, and would take the colours from all others
      const some = fields.filter((field, i) => field && report.upsamplers[i].kernelSize.some((K) => K > 1));
      const extent = extentOf(report, some, state.shown);
      maps.forEach(({ source, map }, i) => {
        paintField(source, fields[i], extent);
        map.draw();
      });
      showRamp(state.shown, extent);
      maps.forEach((entry, i) => { entry.field = fields[i]; });
    }
    if (what.has("shown") || what.has("point")) {
      const at = state.point.row * report.size[1] + state.point.column;
      maps.forEach(({ field, note }) => { note.textContent = field ? shortNumber(field[at]) : "outside its window"; });
    }
  });
}

// null where the upsampler has no such tap
function fieldOf(report, upsampler, shown, entropies) {
  const [H, W] = report.size;
  const [Kh, Kw] = upsampler.kernelSize;
  const { low, step, levels } = upsampler.weights;
  if (shown.kind === "entropy") {
    if (!entropies.has(upsampler)) {
      const field = new Float32Array(H * W);
      const weights = new Float64Array(Kh * Kw);
      for (let p = 0; p < H * W; p++) {
        for (let t = 0; t < Kh * Kw; t++) weights[t] = low + step * levels[t * H * W + p];
        field[p] = entropyOf(weights);
      }
      entropies.set(upsampler, field);
    }
    return entropies.get(upsampler);
  }
  const i = shown.kind === "corner" ? 0 : shown.down + (Kh - 1) / 2;
  const j = shown.kind === "corner" ? 0 : shown.right + (Kw - 1) / 2;
  if (!Number.isInteger(i) || !Number.isInteger(j) || i < 0 || j < 0 || i >= Kh || j >= Kw) return null;
  const start = (i * Kw + j) * H * W;
  return Float32Array.from({ length: H * W }, (_, p) => low + step * levels[start + p]);
}

// one for all, so that they can be compared; a weight that only few points have would leave the rest dark
function extentOf(report, fields, shown) {
  if (shown.kind === "entropy") return [0, Math.log2(report.window[0] * report.window[1])];
  const sample = [];
  let lowest = 0;
  for (const field of fields) {
    const step = Math.max(1, Math.floor(field.length / 4000));
    for (let p = 0; p < field.length; p += step) sample.push(field[p]);
    lowest = Math.min(lowest, ...sample);
  }
  sample.sort((a, b) => a - b);
  const high = sample.length ? sample[Math.floor(0.99 * (sample.length - 1))] : 1;
  return [lowest, Math.max(high, lowest + 1e-3)];
}

function paintField(canvas, field, [low, high]) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let p = 0; p < canvas.width * canvas.height; p++) {
    const share = field ? (field[p] - low) / (high - low) : 0;
    const [red, green, blue] = RAMP_TABLE[Math.round(255 * clamp(share, 0, 1))];
    image.data.set([red, green, blue, field ? 255 : 40], 4 * p);
  }
  context.putImageData(image, 0, 0);
}

function showRamp(shown, [low, high]) {
  const context = document.getElementById("ramp").getContext("2d");
  RAMP_TABLE.forEach((colour, i) => {
    context.fillStyle = css(colour);
    context.fillRect(i, 0, 1, 1);
  });
  const isEntropy = shown.kind === "entropy";
  document.getElementById("ramp-low").textContent = low > -0.005 ? "0" : low.toFixed(2);
  document.getElementById("ramp-high").textContent = isEntropy ? `${high.toFixed(2)} bits` : `≥ ${high.toFixed(2)}`;
  document.getElementById("ramp-name").textContent = NAMES[shown.kind] ?? `weight, ${directionOf(shown)}`;
}

function makeTapButtons(state) {
  const [Kh, Kw] = state.report.window;
  const list = document.getElementById("taps");
  list.style.setProperty("--columns", Kw);
  const buttons = [];
  for (let i = 0; i < Kh; i++) {
    for (let j = 0; j < Kw; j++) {
      const shown = { kind: "tap", down: i - (Kh - 1) / 2, right: j - (Kw - 1) / 2 };
      const isShown = () => state.shown.kind === "tap" && state.shown.down === shown.down && state.shown.right === shown.right;
      buttons.push(makeRadio(state, list, "", directionOf(shown), shown, isShown));
    }
  }
  moveWithArrows(buttons, Kw);
}

function makeMeasureButtons(state) {
  const list = document.getElementById("measures");
  const labels = { corner: "top-left of each kernel", entropy: "entropy" };
  const buttons = Object.entries(labels).map(([kind, label]) =>
    makeRadio(state, list, label, label, { kind }, () => state.shown.kind === kind));
  moveWithArrows(buttons, buttons.length);
}

function makeRadio(state, list, text, label, shown, isShown) {
  const button = makeElement("button", "", text);
  button.type = "button";
  button.setAttribute("role", "radio");
  button.setAttribute("aria-label", label);
  button.title = label;
  button.addEventListener("click", () => state.show(shown));
  state.listen((what) => {
    if (!what.has("shown")) return;
    button.setAttribute("aria-checked", String(isShown()));
    // the Tab key stops at the chosen one, or at the first
    const hasChosen = list.querySelector('[aria-checked="true"]');
    button.tabIndex = isShown() || (!hasChosen && button === list.firstElementChild) ? 0 : -1;
  });
  list.append(button);
  return button;
}

// in a grid of radio buttons the arrows go to the neighbour and choose it
function moveWithArrows(buttons, columns) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  buttons.forEach((button, i) => {
    button.addEventListener("keydown", (event) => {
      const next = buttons[i + (steps[event.key] ?? NaN)];
      if (!next) return;
      event.preventDefault();
      next.focus();
      next.click();
    });
  });
}
