// The explorer: the photograph, the low-res map, a loupe, and a card for each upsampler.

const KINDS = {
  kernels: "the weights it applies",
  linear: "exact weights, read off its response",
  sampled: "exact weights of the places it samples",
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
    document.getElementById("held").textContent = state.isHeld ? "held · Esc lets go" : "";
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
  if (upsampler.isTrained) head.append(makeElement("span", "tag", "as given"));
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

function makeSuggestions(state) {
  const list = document.getElementById("suggestions");
  for (const { name, row, column } of state.report.points) {
    const button = makeElement("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => state.goTo({ row, column }));
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
