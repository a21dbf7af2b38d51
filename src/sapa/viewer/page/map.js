// A picture of one of the grids on a canvas: all of them share the part that is seen, and the point.

// options: label, source (image or canvas), caption, overlay(context, place, ratio), isMain
function makeMap(state, figure, options) {
  const { report } = state;
  const canvas = document.createElement("canvas");
  // one stop for the Tab key; the others take the focus when they are clicked
  canvas.tabIndex = options.isMain ? 0 : -1;
  canvas.setAttribute("role", options.isMain ? "application" : "img");
  canvas.setAttribute("aria-label", options.isMain ? `${options.label}. Arrow keys move the point.` : options.label);
  canvas.className = options.isMain ? "map main" : "map";
  canvas.style.setProperty("--aspect", report.size[1] / report.size[0]);
  figure.append(canvas);
  if (options.caption) {
    const caption = document.createElement("figcaption");
    caption.append(...[].concat(options.caption));
    figure.append(caption);
  }
  const map = { canvas, options, source: options.source, isSeen: true };
  map.draw = () => map.isSeen && drawMap(state, map);
  new ResizeObserver(() => map.draw()).observe(canvas);
  new IntersectionObserver(([entry]) => {
    map.isSeen = entry.isIntersecting;
    map.draw();
  }, { rootMargin: "100px" }).observe(canvas);
  state.listen((what) => {
    if (["point", "view", "theme", "pins", "chosen", "shown"].some((thing) => what.has(thing))) map.draw();
  });
  watchPointer(state, map);
  return map;
}

function drawMap(state, map) {
  const { canvas, source, options } = map;
  const ratio = devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (!width || !height || !source) return;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const { zoom, x, y } = state.view;
  const sourceWidth = source.naturalWidth || source.width;
  const sourceHeight = source.naturalHeight || source.height;
  const part = { width: sourceWidth / zoom, height: sourceHeight / zoom };
  // a pixel larger than two on the screen is drawn as a square
  context.imageSmoothingEnabled = width / part.width < 2;
  context.imageSmoothingQuality = "high";
  context.clearRect(0, 0, width, height);
  const left = x * sourceWidth - part.width / 2;
  const top = y * sourceHeight - part.height / 2;
  context.drawImage(source, left, top, part.width, part.height, 0, 0, width, height);
  const place = placer(state, width, height);
  state.pins.forEach((pin, i) => drawPin(state, context, place, pin, i, ratio));
  options.overlay?.(context, place, ratio);
  drawPoint(state, context, place, ratio);
}

// from parts of the picture to pixels of the canvas
function placer(state, width, height) {
  const { zoom, x, y } = state.view;
  return (across, down) => [((across - x) * zoom + 0.5) * width, ((down - y) * zoom + 0.5) * height];
}

// of rows and columns in a grid: left, top, width, height
function box(place, grid, row, column, rows, columns) {
  const [left, top] = place(column / grid[1], row / grid[0]);
  const [right, bottom] = place((column + columns) / grid[1], (row + rows) / grid[0]);
  return [left, top, right - left, bottom - top];
}

function drawPoint(state, context, place, ratio) {
  const { report, point } = state;
  let [left, top, width, height] = box(place, report.size, point.row, point.column, 1, 1);
  const least = 7 * ratio;
  const grow = Math.max(0, least - Math.min(width, height)) / 2;
  [left, top, width, height] = [left - grow, top - grow, width + 2 * grow, height + 2 * grow];
  outline(context, [left, top, width, height], ratio, "white", 1.5);
}

// the widest window, on the grid of the low-res map
function drawWindow(state, context, place, ratio) {
  const { report } = state;
  const [Kh, Kw] = report.window;
  const middle = centreOf(report, state.point);
  const frame = box(place, report.low, middle.row - (Kh - 1) / 2, middle.column - (Kw - 1) / 2, Kh, Kw);
  outline(context, frame, ratio, "white", 1.5);
}

function drawPin(state, context, place, pin, i, ratio) {
  const [x, y] = place(...pointPlace(state.report, pin));
  // beside the pixel, which stays in sight
  const [flagX, flagY] = [x + 11 * ratio, y - 11 * ratio];
  context.lineWidth = 1.5 * ratio;
  context.strokeStyle = "white";
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(flagX, flagY);
  context.stroke();
  context.beginPath();
  context.arc(flagX, flagY, 8 * ratio, 0, 2 * Math.PI);
  context.fillStyle = "rgb(0 0 0 / 0.8)";
  context.fill();
  context.stroke();
  context.font = `600 ${11 * ratio}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = "white";
  context.fillText(String(i + 1), flagX, flagY + 0.5 * ratio);
}

// a light line on a dark one is seen on every picture
function outline(context, frame, ratio, colour, width) {
  context.strokeStyle = "rgb(0 0 0 / 0.75)";
  context.lineWidth = (width + 2) * ratio;
  context.strokeRect(...frame);
  context.strokeStyle = colour;
  context.lineWidth = width * ratio;
  context.strokeRect(...frame);
}
