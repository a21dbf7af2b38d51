// The loupe: the low-res points around, as squares of their colour; a disc on each says how much it gives.

const LOUPE = 4; // low-res points that it shows beyond the window

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
