// The explorer: the photograph, the low-res map, a loupe, and a card for each upsampler.

const LOUPE = 4; // low-res points that the loupe shows beyond the window

const KINDS = {
  kernels: "the weights it applies",
  linear: "exact weights, read off its response",
  derivative: "derivative by each low-res point",
};

function makeElement(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

function makeExplorer(state) {
  const { report } = state;
  const overlay = (context, place, ratio) => drawWindow(state, context, place, ratio);
  makeMap(state, document.getElementById("photo"), {
    label: report.isPhotograph ? "The photograph" : "The high-res map",
    source: report.photo,
    isMain: true,
    overlay,
  });
  makeMap(state, document.getElementById("decoder"), {
    label: "Low-res map",
    source: report.decoder,
    caption: `low-res map, ${report.low[0]}×${report.low[1]}`,
    overlay,
  });
  makeLoupe(state, document.getElementById("loupe"));
  report.upsamplers.forEach((upsampler, i) => makeCard(state, upsampler, i));
  makeSuggestions(state);
  const where = document.getElementById("where");
  state.listen((what) => {
    if (!what.has("point") && !what.has("held")) return;
    const middle = centreOf(report, state.point);
    where.textContent = `row ${state.point.row}, column ${state.point.column} → low-res ${middle.row}, ${middle.column}`;
    document.getElementById("held").textContent = state.isHeld ? "held; Esc lets go" : "";
    if (what.has("point")) speak(state);
  });
}

function makeCard(state, upsampler, i) {
  const { report } = state;
  const number = makeElement("span", "number", String(i + 1));
  const title = makeElement("button", "choose", number, upsampler.name);
  title.type = "button";
  title.title = "Choose (" + (i + 1) + ")";
  title.addEventListener("click", () => state.choose(i));
  const head = makeElement("header", "", makeElement("h3", "", title));
  if (upsampler.isTrained === false) head.append(makeElement("span", "tag warn", "untrained"));
  if (upsampler.isTrained) head.append(makeElement("span", "tag", "trained"));
  const figure = makeElement("figure", "");
  const kernel = makeKernelTable(report, upsampler.name);
  const words = makeElement("p", "words");
  const numbers = makeElement("p", "numbers");
  const kind = makeElement("p", "kind", KINDS[upsampler.kind] + (upsampler.hasGate ? ", before its gate lets the guide in" : ""));
  const card = makeElement("article", "card", head, makeElement("div", "twin", figure, kernel.table), words, numbers, kind);
  card.dataset.name = upsampler.name;
  document.getElementById("cards").append(card);
  makeMap(state, figure, { label: `Upsampled by ${upsampler.name}`, source: upsampler.picture });

  const update = () => {
    const taps = tapsOf(report, upsampler, state.point);
    const summary = summaryOf(taps);
    fillKernelTable(report, kernel, taps, currentTheme());
    words.textContent = wordsFor(upsampler, taps, summary);
    numbers.textContent = `entropy ${summary.entropy.toFixed(2)} bits · sum ${summary.sum.toFixed(3)}`;
  };
  state.listen((what) => {
    if (what.has("point") || what.has("theme")) update();
    if (what.has("chosen")) {
      card.classList.toggle("chosen", state.chosen === i);
      title.setAttribute("aria-pressed", String(state.chosen === i));
    }
  });
}

// the low-res points around, as squares of their colour; a disc on each says how much it gives
function makeLoupe(state, figure) {
  const { report } = state;
  const canvas = makeElement("canvas", "map loupe");
  canvas.setAttribute("role", "img");
  const caption = makeElement("figcaption", "");
  figure.append(canvas, caption);
  const draw = () => {
    const upsampler = report.upsamplers[state.chosen];
    caption.textContent = `what ${upsampler.name} draws from`;
    canvas.setAttribute("aria-label", caption.textContent);
    drawLoupe(state, canvas, upsampler);
  };
  new ResizeObserver(draw).observe(canvas);
  state.listen((what) => {
    if (["point", "chosen", "theme"].some((thing) => what.has(thing))) draw();
  });
}

function drawLoupe(state, canvas, upsampler) {
  const { report } = state;
  const ratio = devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(canvas.clientWidth * ratio), height: Math.round(canvas.clientHeight * ratio) });
  const context = canvas.getContext("2d");
  const rows = report.window[0] + LOUPE;
  const cell = canvas.height / rows;
  const middle = centreOf(report, state.point);
  const across = (column) => Math.round(canvas.width / 2 + (column - middle.column - 0.5) * cell);
  const down = (row) => Math.round(canvas.height / 2 + (row - middle.row - 0.5) * cell);
  const { data, width } = report.decoderPixels;
  const columns = Math.ceil(canvas.width / cell / 2);
  for (let row = middle.row - rows; row <= middle.row + rows; row++) {
    for (let column = middle.column - columns; column <= middle.column + columns; column++) {
      if (!isInside(report, row, column)) continue;
      context.fillStyle = css([...data.slice(4 * (row * width + column), 4 * (row * width + column) + 3)]);
      context.fillRect(across(column), down(row), cell + 1, cell + 1);
    }
  }
  const taps = tapsOf(report, upsampler, state.point);
  // the area is the weight, and a kernel of many small ones is still seen
  const full = Math.max(0.2, ...taps.map((tap) => Math.abs(tap.weight)));
  for (const tap of taps) {
    const radius = 0.46 * cell * Math.sqrt(Math.abs(tap.weight) / full);
    if (radius < 0.4 * ratio || !tap.inside) continue;
    context.beginPath();
    context.arc(across(middle.column + tap.right) + cell / 2, down(middle.row + tap.down) + cell / 2, radius, 0, 2 * Math.PI);
    context.fillStyle = tap.weight < 0 ? "rgb(255 140 50)" : "white";
    context.fill();
    context.lineWidth = 1.5 * ratio;
    context.strokeStyle = "rgb(0 0 0 / 0.75)";
    context.stroke();
  }
  const [Kh, Kw] = report.window;
  outline(context, [across(middle.column - (Kw - 1) / 2), down(middle.row - (Kh - 1) / 2), Kw * cell, Kh * cell], ratio, "white", 1.5);
  const point = [
    ((state.point.column + 0.5) / report.size[1]) * report.low[1],
    ((state.point.row + 0.5) / report.size[0]) * report.low[0],
  ];
  const side = Math.max(6 * ratio, (cell * report.low[0]) / report.size[0]);
  outline(context, [across(point[0]) - side / 2, down(point[1]) - side / 2, side, side], ratio, "white", 1.5);
}

function makeSuggestions(state) {
  const list = document.getElementById("suggestions");
  for (const { name, row, column } of state.report.points) {
    const button = makeElement("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => {
      state.hold(true);
      state.moveTo(row, column);
      state.follow();
    });
    list.insertBefore(button, document.getElementById("pin"));
  }
}

let speakTimer = 0;

// for screen readers, once the point rests
function speak(state) {
  clearTimeout(speakTimer);
  speakTimer = setTimeout(() => {
    const { report, point, chosen } = state;
    const upsampler = report.upsamplers[chosen];
    const taps = tapsOf(report, upsampler, point);
    const summary = summaryOf(taps);
    document.getElementById("spoken").textContent =
      `Row ${point.row}, column ${point.column}. ${upsampler.name} ${wordsFor(upsampler, taps, summary)}; ` +
      `the largest weight is ${summary.largest.weight.toFixed(2)}, at ${directionOf(summary.largest)}.`;
  }, 500);
}
