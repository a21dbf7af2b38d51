// The weights of one point: a table with numbers, a small picture without, and what they come to.

// every upsampler has the window of the widest, so that the same place is the same low-res point in all tables
function makeKernelTable(report, name) {
  const [Kh, Kw] = report.window;
  const table = makeElement("div", Kw > 5 ? "kernel many" : "kernel");
  table.setAttribute("role", "table");
  table.setAttribute("aria-label", `Weights of ${name}, by rows of the low-res window`);
  table.style.setProperty("--columns", Kw);
  const cells = [];
  for (let i = 0; i < Kh; i++) {
    const row = makeElement("div", "");
    row.setAttribute("role", "row");
    for (let j = 0; j < Kw; j++) {
      const cell = makeElement("span", "");
      cell.setAttribute("role", "cell");
      cells.push(cell);
      row.append(cell);
    }
    table.append(row);
  }
  return { table, cells };
}

function fillKernelTable(report, { cells }, taps, theme) {
  const [Kh, Kw] = report.window;
  const found = new Map(taps.map((tap) => [(tap.down + (Kh - 1) / 2) * Kw + tap.right + (Kw - 1) / 2, tap]));
  const largest = Math.max(...taps.map((tap) => Math.abs(tap.weight)));
  cells.forEach((cell, i) => {
    const tap = found.get(i);
    cell.className = tap ? (tap.inside ? "" : "outside") : "unused";
    if (tap && Math.abs(tap.weight) === largest && largest > 0) cell.classList.add("largest");
    cell.textContent = tap ? shortNumber(tap.weight) : "";
    if (!tap) {
      cell.removeAttribute("style");
      cell.removeAttribute("title");
      delete cell.dataset.weight;
      return;
    }
    cell.dataset.weight = tap.weight.toFixed(6);
    cell.title = tap.weight.toFixed(5);
    const colour = weightColour(tap.weight, theme);
    cell.style.backgroundColor = tap.inside ? css(colour) : "";
    cell.style.color = tap.inside ? (isDark(colour) ? "white" : "black") : "";
  });
}

// .041 for 0.041, so that five of them fit side by side
function shortNumber(weight) {
  const size = Math.abs(weight);
  // the sign takes the place of a digit
  const digits = size >= 9.995 ? 1 : size >= 0.9995 || weight < 0 ? 2 : 3;
  if (size < 0.5 / 10 ** digits) return "0";
  return weight.toFixed(digits).replace(/^(-?)0\./, "$1.").replace("-", "−");
}

function drawKernel(report, canvas, taps, theme) {
  const [Kh, Kw] = report.window;
  Object.assign(canvas, { width: Kw, height: Kh });
  const context = canvas.getContext("2d");
  for (const tap of taps) {
    context.fillStyle = css(weightColour(tap.weight, theme));
    context.fillRect(tap.right + (Kw - 1) / 2, tap.down + (Kh - 1) / 2, 1, 1);
  }
}

function summaryOf(taps) {
  const entropy = entropyOf(taps.map((tap) => tap.weight));
  const largest = taps.reduce((best, tap) => (Math.abs(tap.weight) > Math.abs(best.weight) ? tap : best));
  return {
    entropy,
    points: 2 ** entropy,
    largest,
    sum: taps.reduce((sum, tap) => sum + (tap.inside ? tap.weight : 0), 0),
  };
}

function directionOf({ down, right }) {
  const words = [];
  if (down) words.push(`${Math.abs(down)} ${down < 0 ? "up" : "down"}`);
  if (right) words.push(`${Math.abs(right)} ${right < 0 ? "left" : "right"}`);
  return words.join(", ") || "the centre";
}

// a kernel in words, where it has a plain one
function wordsFor(upsampler, taps, summary) {
  if (upsampler.kind !== "derivative") {
    const inside = taps.filter((tap) => tap.inside);
    if (taps.length === 1) return "copies one low-res point";
    if (summary.points > 0.97 * inside.length && inside.length > 4) return `flat: all near 1/${inside.length}`;
    if (summary.points < 1.15) return "takes one point, almost alone";
  }
  return `draws from ${summary.points.toFixed(1)} points`;
}
